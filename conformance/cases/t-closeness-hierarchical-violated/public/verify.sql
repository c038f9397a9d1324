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
SELECT text_of(c1) AS "group", text_of(c2) AS "illness"
FROM read_csv('data.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\n',
    allow_quoted_nulls = false, columns = {'c1': 'VARCHAR', 'c2': 'VARCHAR'});
CREATE TEMP TABLE declared AS
SELECT attribute, unnest(labels) AS label, generate_subscripts(labels, 1) - 1 AS number
FROM (SELECT a.key AS attribute, json_keys(a.value, '/labels') AS labels
  FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a);

-- The place of a label among the declared ones; after these come missing values, then any other text.
CREATE TEMP MACRO digit(place, label, n) AS coalesce(place, CASE WHEN label IS NULL THEN n ELSE n + 1 END)::BIGINT;
CREATE TEMP TYPE label1 AS ENUM (SELECT label FROM declared WHERE attribute = 'group' ORDER BY number);

-- Rows with equal quasi-identifiers are an equivalence class; c of its n records have the values (s).
CREATE TEMP TABLE counted AS
SELECT 1 + digit(enum_code(try_cast("group" AS label1)), "group", 2) AS class, "illness" AS s1, count(*) AS c
FROM release GROUP BY ALL;
CREATE TEMP TABLE classes AS SELECT class, sum(c) AS n FROM counted GROUP BY class;
CREATE TEMP TABLE published AS
SELECT 'group' AS attribute, number FROM (SELECT DISTINCT mod((class - 1) // 1, 4) AS number FROM classes);
CREATE TEMP TABLE texts1 AS SELECT s, CASE WHEN s::VARCHAR NOT IN ('') THEN folded(s::VARCHAR) END AS value
FROM (SELECT DISTINCT s1 AS s FROM counted);

-- SQL cannot compare the spellings of values with letters outside this list, and decides nothing then.
CREATE TEMP MACRO decided(h) AS CASE WHEN (SELECT count(*) FROM (FROM texts1) WHERE NOT regexp_full_match(value,
  '[\t-\r -~¿-Þà-įŊ-žΣ-ρЀ-ҁҊ-ԯ\x{5D0}-\x{5EA}\x{620}-\x{64A}ก-าぁ-ゖァ-ヺ一-鿿가-힣Ḁ-ẙẠ-ỹ]*')) = 0 THEN h END;
CREATE TEMP TABLE v1 AS SELECT class, n, texts1.value AS value, sum(c) AS c
FROM counted JOIN classes USING (class) JOIN texts1 ON counted.s1 IS NOT DISTINCT FROM texts1.s GROUP BY ALL;
CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '16' AS required, count(*)::VARCHAR AS achieved, count(*) = 16 AND count(*) > 0 AS holds FROM release
UNION ALL SELECT 'columns', '2', NULL, line = 'group,illness'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1)
UNION ALL SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT SELECT attribute, number FROM declared)
  UNION ALL (SELECT attribute, number FROM declared EXCEPT FROM published))
UNION ALL SELECT 't-closeness', 't = 0.0624, distance = hierarchical', achieved::DOUBLE::VARCHAR, decided(holds AND agrees(achieved, 0.0625))
FROM (SELECT max(work / (n * total * 2)) AS achieved,
    all_hold(work * 625 <= (n * total * 2) * 39) AS holds
  FROM (SELECT class, n, total, CASE WHEN bool_and(known) THEN sum(work) END AS work FROM (SELECT class, n, total, count(*) = count(node) AS known, height * least(sum(greatest(gap, 0)), sum(greatest(-gap, 0))) AS work FROM (SELECT class, n, total, node, parent, height, sum(gap) AS gap FROM (SELECT o.class, o.n, total, node, parent, height, coalesce(v.c, 0) * total - whole * o.n AS gap FROM (SELECT DISTINCT class, n FROM v1) AS o CROSS JOIN (SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM v1 GROUP BY value) AS w LEFT JOIN (VALUES
  (NULL, 10, 0, 2),
  ('stroke', 9, 8, 1),
  ('stroke', 8, 0, 2),
  ('sprain', 7, 5, 1),
  ('sprain', 5, 0, 2),
  ('gout', 6, 5, 1),
  ('gout', 5, 0, 2),
  ('flu', 4, 1, 1),
  ('flu', 1, 0, 2),
  ('cold', 3, 1, 1),
  ('cold', 1, 0, 2),
  ('asthma', 2, 1, 1),
  ('asthma', 1, 0, 2)) AS t(text, node, parent, height) ON w.value IS NOT DISTINCT FROM t.text LEFT JOIN v1 AS v ON v.class = o.class AND v.value IS NOT DISTINCT FROM w.value) GROUP BY ALL) GROUP BY class, n, total, parent, height) GROUP BY class, n, total));
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
