-- Checks the guarantees of this release. Run it in the folder of the release, with DuckDB 2.0 or later:
--   duckdb < verify.sql
-- It prints each check, its requirement, the figure that the rows reach, and whether the check holds.
-- "holds" is empty (NULL) if the public files or SQL cannot decide; shoal verify explains why.

CREATE TEMP MACRO all_hold(h) AS CASE WHEN bool_or(NOT h) THEN false WHEN bool_or(h IS NULL) THEN NULL ELSE true END;
CREATE TEMP MACRO agrees(found, stated) AS found = stated OR abs(found - stated) <= 1e-9 * greatest(abs(found), abs(stated), 1);

-- A quotation mark protects spreadsheets from texts that look like formulas. It is not part of the value.
CREATE TEMP MACRO text_of(t) AS CASE WHEN NOT starts_with(t, '''') THEN t
  WHEN regexp_matches(t, '^''+([=@\t\r]|[+-].*[(|!"''])', 's') THEN substr(t, 2) ELSE t END;
CREATE TEMP VIEW release AS
SELECT text_of(c1) AS "age", text_of(c2) AS "sex", text_of(c3) AS "illness"
FROM read_csv('data.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\n',
    allow_quoted_nulls = false, columns = {'c1': 'VARCHAR', 'c2': 'VARCHAR', 'c3': 'VARCHAR'});
CREATE TEMP TABLE declared AS
SELECT attribute, unnest(labels) AS label, generate_subscripts(labels, 1) - 1 AS number
FROM (SELECT a.key AS attribute, json_keys(a.value, '/labels') AS labels
  FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a);

-- The place of a label among the declared ones; after these come missing values, then any other text.
CREATE TEMP MACRO digit(place, label, n) AS coalesce(place, CASE WHEN label IS NULL THEN n ELSE n + 1 END)::BIGINT;
CREATE TEMP TYPE label1 AS ENUM (SELECT label FROM declared WHERE attribute = 'age' ORDER BY number);
CREATE TEMP TYPE label2 AS ENUM (SELECT label FROM declared WHERE attribute = 'sex' ORDER BY number);
CREATE TEMP TYPE label3 AS ENUM (SELECT label FROM declared WHERE attribute = 'illness' ORDER BY number);
CREATE TEMP TABLE published AS
SELECT 'age' AS attribute, number FROM (SELECT DISTINCT digit(enum_code(try_cast("age" AS label1)), "age", 16) AS number FROM release)
UNION SELECT 'sex' AS attribute, number FROM (SELECT DISTINCT digit(enum_code(try_cast("sex" AS label2)), "sex", 2) AS number FROM release)
UNION SELECT 'illness' AS attribute, number FROM (SELECT DISTINCT digit(enum_code(try_cast("illness" AS label3)), "illness", 6) AS number FROM release) WHERE number <> 6;
CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '40' AS required, count(*)::VARCHAR AS achieved, count(*) = 40 AND count(*) > 0 AS holds FROM release
UNION ALL SELECT 'columns', '3', NULL, line = 'age,sex,illness'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1)
UNION ALL SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT SELECT attribute, number FROM declared)
  UNION ALL (SELECT attribute, number FROM declared EXCEPT FROM published));
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
