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
SELECT text_of(c1) AS "age", text_of(c2) AS "sex", text_of(c3) AS "town", text_of(c4) AS "illness"
FROM read_csv('data.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\n',
    allow_quoted_nulls = false, columns = {'c1': 'VARCHAR', 'c2': 'VARCHAR', 'c3': 'VARCHAR', 'c4': 'VARCHAR'});
CREATE TEMP TABLE checks AS
SELECT 'rows' AS promise, '60' AS required, count(*)::VARCHAR AS achieved, count(*) = 60 AND count(*) > 0 AS holds FROM release
UNION ALL SELECT 'columns', '4', NULL, line = 'age,sex,town,illness'
FROM (FROM read_csv('data.csv', header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}) LIMIT 1);
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
