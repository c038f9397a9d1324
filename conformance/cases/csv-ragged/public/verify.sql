-- Checks the guarantees of this release. Run it in the folder of the release, with DuckDB 1.4 or later:
--   duckdb < verify.sql
-- It prints each check, its requirement, the figure that the rows reach, and whether the check holds.
-- "holds" is empty (NULL) if the public files or SQL cannot decide; shoal verify explains why.

CREATE TEMP MACRO all_hold(h) AS CASE WHEN bool_or(NOT h) THEN false WHEN bool_or(h IS NULL) THEN NULL ELSE true END;
CREATE TEMP MACRO agrees(found, stated) AS
  found = stated OR abs(found - stated) <= 1e-9 * greatest(abs(found), abs(stated), 1);
CREATE TEMP MACRO power(b, e) AS
  list_reduce(list_transform(range(e::BIGINT), lambda i: b::HUGEINT), lambda x, y: x * y);
-- Spellings of one value count as one value.
CREATE TEMP MACRO folded(t) AS
  trim(regexp_replace(lower(replace(nfc_normalize(t), 'İ', 'i' || chr(775))), '[\t-\r ]+', ' ', 'g'));

-- A quotation mark protects spreadsheets from texts that look like formulas. It is not part of the value.
CREATE TEMP MACRO text_of(t) AS
  CASE WHEN regexp_matches(t, '^''+([=@\t\r]|[+-].*[(|!"''])', 's') THEN substr(t, 2) ELSE t END;

CREATE TEMP VIEW release AS
SELECT * FROM read_csv('data.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"',
  columns = {'age': 'VARCHAR', 'zip': 'VARCHAR', 'sex': 'VARCHAR', 'illness': 'VARCHAR', 'ward': 'VARCHAR',
    'wage': 'VARCHAR'});

-- Rows with equal quasi-identifiers (q) are an equivalence class; c of its n records have the values (s).
CREATE TEMP TABLE counted AS
SELECT "age" AS q1, "zip" AS q2, "sex" AS q3, "illness" AS s1, count(*) AS c
FROM release GROUP BY ALL;
CREATE TEMP TABLE classes AS SELECT row_number() OVER () AS class, *
FROM (SELECT q1, q2, q3, sum(c) AS n FROM counted GROUP BY ALL);
CREATE TEMP TABLE cells AS SELECT class, n, r.* EXCLUDE (q1, q2, q3)
FROM counted AS r JOIN classes AS k ON k.q1 IS NOT DISTINCT FROM r.q1 AND k.q2 IS NOT DISTINCT FROM r.q2 AND k.q3 IS NOT DISTINCT FROM r.q3;

CREATE TEMP VIEW declared AS
SELECT a.key AS attribute, unnest(json_keys(a.value, '/labels')) AS label
FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a;

CREATE TEMP VIEW published AS
SELECT 'age' AS attribute, text_of(q1) AS label FROM counted
UNION SELECT 'zip' AS attribute, text_of(q2) AS label FROM counted
UNION SELECT 'sex' AS attribute, text_of(q3) AS label FROM counted;

CREATE TEMP TABLE texts1 AS SELECT s, CASE WHEN text_of(s) NOT IN ('') THEN folded(text_of(s)) END AS value
FROM (SELECT DISTINCT s1 AS s FROM cells);

-- SQL cannot compare the spellings of values with letters outside this list, and decides nothing then.
CREATE TEMP MACRO decided(h) AS CASE WHEN (SELECT count(*) FROM (FROM texts1) WHERE NOT regexp_full_match(value,
  '[\t-\r -~¿-Þà-įŊ-žΣ-ρЀ-ҁҊ-ԯ\x{5D0}-\x{5EA}\x{620}-\x{64A}ก-าぁ-ゖァ-ヺ一-鿿가-힣Ḁ-ẙẠ-ỹ]*')) = 0 THEN h END;

CREATE TEMP TABLE v1 AS SELECT class, n, texts1.value AS value, sum(c) AS c
FROM cells JOIN texts1 ON cells.s1 IS NOT DISTINCT FROM texts1.s
GROUP BY ALL;

CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '40' AS required, count(*)::VARCHAR AS achieved, count(*) = 40 AND count(*) > 0 AS holds
FROM release
UNION ALL
SELECT 'columns', '6', NULL, line = 'age,zip,sex,illness,ward,wage'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1)
UNION ALL
SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT FROM declared) UNION ALL (FROM declared EXCEPT FROM published))
UNION ALL
SELECT 'k-anonymity', 'k = 3', achieved::DOUBLE::VARCHAR, holds AND agrees(achieved, 3.0)
FROM (SELECT min(n) AS achieved, min(n) >= 3 AS holds FROM classes)
UNION ALL
SELECT 'distinct-l-diversity', 'l = 2', achieved::DOUBLE::VARCHAR, decided(holds AND agrees(achieved, 2.0))
FROM (SELECT min(CASE WHEN any_harmful THEN kinds ELSE (SELECT sum(n) FROM classes) END) AS achieved,
    all_hold(kinds >= 2 OR NOT any_harmful) AS holds
  FROM (SELECT count(*) AS kinds, bool_or(true) AS any_harmful FROM v1 GROUP BY class));

SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
