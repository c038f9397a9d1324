-- Checks the guarantees of this release. Run it in the folder of the release, with DuckDB 2.0 or later:
--   duckdb < verify.sql
-- It prints each check, its requirement, the figure that the rows reach, and whether the check holds.
-- "holds" is empty (NULL) if the public files or SQL cannot decide; shoal verify explains why.

CREATE TEMP MACRO all_hold(h) AS CASE WHEN bool_or(NOT h) THEN false WHEN bool_or(h IS NULL) THEN NULL ELSE true END;
CREATE TEMP MACRO agrees(found, stated) AS found = stated OR abs(found - stated) <= 1e-9 * greatest(abs(found), abs(stated), 1);
-- Spellings of one value count as one value.
CREATE TEMP MACRO folded(t) AS
  trim(regexp_replace(lower(replace(nfc_normalize(t), 'İ', 'i' || chr(775))), '[\t-\r ]+', ' ', 'g'));

-- A quotation mark protects spreadsheets from texts that look like formulas. It is not part of the value.
CREATE TEMP MACRO text_of(t) AS CASE WHEN NOT starts_with(t, '''') THEN t
  WHEN regexp_matches(t, '^''+([=@\t\r]|[+-].*[(|!"''])', 's') THEN substr(t, 2) ELSE t END;
CREATE TEMP VIEW release AS
SELECT text_of(c1) AS "bucket", text_of(c2) AS "age", text_of(c3) AS "sex", text_of(c4) AS "illness"
FROM read_csv('data.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\n',
    allow_quoted_nulls = false, columns = {'c1': 'VARCHAR', 'c2': 'VARCHAR', 'c3': 'VARCHAR', 'c4': 'VARCHAR'});

-- In each bucket, rows with equal quasi-identifiers in the part of the values (s) are a class.
CREATE TEMP TABLE counted AS
SELECT row("bucket"::VARCHAR) AS class, "illness" AS s1, count(*) AS c
FROM release GROUP BY ALL;
CREATE TEMP TABLE classes AS SELECT class, sum(c) AS n FROM counted GROUP BY class;
CREATE TEMP TABLE texts1 AS SELECT s, CASE WHEN s::VARCHAR NOT IN ('') THEN folded(s::VARCHAR) END AS value
FROM (SELECT DISTINCT s1 AS s FROM counted);

-- SQL cannot compare the spellings of values with letters outside this list, and decides nothing then.
CREATE TEMP MACRO decided(h) AS CASE WHEN (SELECT count(*) FROM (FROM texts1) WHERE NOT regexp_full_match(value,
  '[\t-\r -~¿-Þà-įŊ-žΣ-ρЀ-ҁҊ-ԯ\x{5D0}-\x{5EA}\x{620}-\x{64A}ก-าぁ-ゖァ-ヺ一-鿿가-힣Ḁ-ẙẠ-ỹ]*')) = 0 THEN h END;
CREATE TEMP TABLE v1 AS SELECT class, n, texts1.value AS value, sum(c) AS c
FROM counted JOIN classes USING (class) JOIN texts1 ON counted.s1 IS NOT DISTINCT FROM texts1.s GROUP BY ALL;
CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '40' AS required, count(*)::VARCHAR AS achieved, count(*) = 40 AND count(*) > 0 AS holds FROM release
UNION ALL SELECT 'columns', '4', NULL, line = 'bucket,age,sex,illness'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1)
UNION ALL SELECT 'buckets', '13', count(*)::VARCHAR, min(b) = 1 AND max(b) = 13 AND count(*) = 13
FROM (SELECT DISTINCT bucket::BIGINT AS b FROM release)
UNION ALL SELECT 'distinct-l-diversity', required, achieved, CASE WHEN holds THEN true END
FROM (SELECT 'distinct-l-diversity', 'l = 2', achieved::DOUBLE::VARCHAR, decided(holds)
FROM (SELECT min(CASE WHEN any_harmful THEN kinds ELSE (SELECT sum(n) FROM classes) END) AS achieved,
    all_hold(kinds >= 2 OR NOT any_harmful) AS holds
  FROM (SELECT class, count(*) AS kinds, bool_or(true) AS any_harmful FROM v1 GROUP BY class))) AS t(promise, required, achieved, holds);
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
