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
  columns = {'age': 'VARCHAR', 'illness': 'VARCHAR'});

CREATE TEMP VIEW declared AS
SELECT a.key AS attribute, unnest(json_keys(a.value, '/labels')) AS label
FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a;

CREATE TEMP VIEW published AS
SELECT 'age' AS attribute, text_of("age") AS label FROM release
UNION SELECT 'illness' AS attribute, text_of("illness") AS label FROM release WHERE text_of("illness") IS NOT NULL;

CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '29' AS required, count(*)::VARCHAR AS achieved, count(*) = 29 AND count(*) > 0 AS holds
FROM release
UNION ALL
SELECT 'columns', '2', NULL, line = 'age,illness'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1)
UNION ALL
SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT FROM declared) UNION ALL (FROM declared EXCEPT FROM published));

SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
