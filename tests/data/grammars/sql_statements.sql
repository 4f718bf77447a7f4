SELECT 1
;;
SELECT * FROM users
;;
SELECT id, name, email FROM users WHERE active = 1 ORDER BY created_at DESC LIMIT 20 OFFSET 40;
;;
select u.id, u.name, count(o.id) as orders from users u left join orders o on o.user_id = u.id group by u.id, u.name having count(o.id) > 3 order by orders desc
;;
SELECT DISTINCT city FROM customers WHERE country IN ('DE', 'FR', 'IT') AND city IS NOT NULL ORDER BY city
;;
SELECT COUNT(*) FROM messages WHERE read = 0 AND recipient_id = ?
;;
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE date(visited_at) BETWEEN '2024-01-01' AND '2024-01-31'
;;
SELECT max(price), min(price), avg(price) FROM products WHERE category_id = 7
;;
SELECT p.*, c.name AS category FROM products AS p JOIN categories AS c ON p.category_id = c.id WHERE p.price < 100.00
;;
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
;;
SELECT name, sql FROM sqlite_schema WHERE type='index' AND tbl_name=?1
;;
SELECT a.title, b.title FROM albums a, albums b WHERE a.artist_id = b.artist_id AND a.id < b.id
;;
SELECT CASE WHEN score >= 90 THEN 'A' WHEN score >= 80 THEN 'B' ELSE 'C' END AS grade, COUNT(*) FROM results GROUP BY grade
;;
SELECT CASE status WHEN 0 THEN 'new' WHEN 1 THEN 'open' ELSE 'closed' END FROM tickets
;;
SELECT CAST(strftime('%Y', order_date) AS INTEGER) AS year, SUM(total) FROM orders GROUP BY 1 ORDER BY 1
;;
SELECT * FROM t WHERE a = 1 AND (b = 2 OR c = 3) AND NOT d
;;
SELECT * FROM employees WHERE salary > (SELECT AVG(salary) FROM employees)
;;
SELECT e.name FROM employees e WHERE EXISTS (SELECT 1 FROM projects p WHERE p.lead_id = e.id)
;;
SELECT e.name FROM employees e WHERE NOT EXISTS (SELECT * FROM absences a WHERE a.employee_id = e.id AND a.day = date('now'))
;;
SELECT id FROM a UNION SELECT id FROM b
;;
SELECT id, 'a' AS source FROM a UNION ALL SELECT id, 'b' FROM b ORDER BY source, id DESC LIMIT 10
;;
SELECT id FROM a EXCEPT SELECT a_id FROM b INTERSECT SELECT c_id FROM c
;;
SELECT * FROM a UNION ALL SELECT * FROM b
;;
VALUES (1, 'one'), (2, 'two'), (3, 'three')
;;
WITH recent AS (SELECT * FROM orders WHERE created_at > date('now', '-7 days')) SELECT customer_id, SUM(amount) FROM recent GROUP BY customer_id
;;
WITH RECURSIVE counter(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM counter WHERE x < 100) SELECT x FROM counter
;;
WITH RECURSIVE tree(id, parent_id, depth) AS (
  SELECT id, parent_id, 0 FROM nodes WHERE parent_id IS NULL
  UNION ALL
  SELECT n.id, n.parent_id, tree.depth + 1 FROM nodes n JOIN tree ON n.parent_id = tree.id
)
SELECT * FROM tree ORDER BY depth, id
;;
WITH RECURSIVE fib(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM fib LIMIT 20) SELECT a FROM fib
;;
WITH a AS MATERIALIZED (SELECT 1 AS x), b AS NOT MATERIALIZED (SELECT 2 AS y) SELECT x, y FROM a, b
;;
WITH RECURSIVE under_alice(name, level) AS (VALUES('Alice', 0) UNION ALL SELECT org.name, under_alice.level+1 FROM org JOIN under_alice ON org.boss=under_alice.name ORDER BY 2) SELECT substr('..........',1,level*3) || name FROM under_alice
;;
WITH RECURSIVE xaxis(x) AS (VALUES(-2.0) UNION ALL SELECT x+0.05 FROM xaxis WHERE x<1.2) SELECT group_concat(x, ',') FROM xaxis
;;
SELECT name, salary, RANK() OVER (ORDER BY salary DESC) AS r FROM employees
;;
SELECT name, department, ROW_NUMBER() OVER (PARTITION BY department ORDER BY salary DESC) AS rn FROM employees
;;
SELECT day, SUM(amount) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week FROM sales
;;
SELECT day, AVG(amount) OVER w, MAX(amount) OVER w FROM sales WINDOW w AS (PARTITION BY shop ORDER BY day)
;;
SELECT a, b, group_concat(b, '.') OVER (ORDER BY a ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) FROM t1
;;
SELECT c, group_concat(b, '.') FILTER (WHERE c != 'two') OVER (ORDER BY a) FROM t1
;;
SELECT x, sum(x) OVER (ORDER BY x RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) FROM t1
;;
SELECT x, first_value(x) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t1
;;
SELECT lag(price, 1, 0) OVER (PARTITION BY symbol ORDER BY ts) AS previous, price - lag(price) OVER (PARTITION BY symbol ORDER BY ts) FROM ticks
;;
SELECT ntile(4) OVER (ORDER BY score) FROM results
;;
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY user_id ORDER BY created_at DESC) AS n FROM posts) WHERE n = 1
;;
SELECT json_extract(data, '$.user.name') FROM events WHERE json_extract(data, '$.type') = 'login'
;;
SELECT data->>'$.name', data->'$.tags' FROM documents WHERE data->>'age' > 21
;;
SELECT key, value FROM json_each('[1,2,3]')
;;
SELECT DISTINCT user.name FROM user, json_each(user.phone) WHERE json_each.value LIKE '704-%'
;;
SELECT * FROM generate_series(1, 10) AS g
;;
SELECT name FROM pragma_table_info('users') WHERE pk > 0
;;
SELECT hex(randomblob(16)), lower(hex(randomblob(4)))
;;
SELECT datetime('now', 'localtime'), julianday('now') - julianday('1776-07-04')
;;
SELECT x'53514C697465', X'', 0x1F, 1e3, 1.5E-10, .5, 5.
;;
SELECT -1, +2, ~3, - -4, 5 - -6, 7 % 4, 1 << 3, 255 & 15, 1 | 2, 9 >> 1
;;
SELECT first_name || ' ' || last_name AS "full name" FROM people
;;
SELECT [order], `group`, "select" FROM "my table"
;;
SELECT "a""b", `c``d`, 'it''s' FROM t
;;
SELECT a -- a comment at the end
FROM t /* a comment
over lines */ WHERE b
;;
SELECT * FROM t WHERE name LIKE '%\_%' ESCAPE '\'
;;
SELECT * FROM files WHERE name GLOB '*.txt' AND name NOT GLOB 'tmp*'
;;
SELECT * FROM docs WHERE docs MATCH 'sqlite AND fast' ORDER BY rank
;;
SELECT highlight(email, 2, '<b>', '</b>') FROM email WHERE email MATCH 'fts5' ORDER BY bm25(email)
;;
SELECT snippet(docs) FROM docs WHERE body MATCH ?
;;
SELECT * FROM t WHERE x REGEXP '^a+$'
;;
SELECT * FROM t WHERE name = 'x' COLLATE NOCASE ORDER BY name COLLATE NOCASE ASC, id DESC NULLS LAST
;;
SELECT * FROM t WHERE a IS NULL OR b IS NOT NULL OR c ISNULL OR d NOTNULL OR e NOT NULL
;;
SELECT * FROM t WHERE a IS b AND c IS NOT d AND e IS DISTINCT FROM f AND g IS NOT DISTINCT FROM h
;;
SELECT * FROM t WHERE (a, b) = (1, 2) OR (a, b) IN (SELECT x, y FROM u) OR (a, b, c) > (1, 2, 3)
;;
SELECT * FROM t WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT 50
;;
SELECT * FROM t WHERE id IN (?, ?, ?) AND kind NOT IN (SELECT kind FROM hidden)
;;
SELECT * FROM t WHERE id NOT IN () AND x BETWEEN ? AND ? AND y NOT BETWEEN -1 AND 1
;;
SELECT * FROM t WHERE a = :a AND b = @b AND c = $c AND d = ?12
;;
SELECT * FROM t1 NATURAL JOIN t2
;;
SELECT * FROM t1 LEFT OUTER JOIN t2 USING (id, kind) INNER JOIN t3 ON t3.id = t2.ref CROSS JOIN t4
;;
SELECT * FROM t1 FULL OUTER JOIN t2 ON t1.a = t2.b RIGHT JOIN t3 USING (c)
;;
SELECT * FROM (t1 JOIN t2 ON t1.a = t2.a) LEFT JOIN (SELECT b, count(*) AS n FROM t3 GROUP BY b) AS s ON s.b = t1.b
;;
SELECT * FROM main.users JOIN aux.orders ON main.users.id = aux.orders.user_id
;;
SELECT * FROM t INDEXED BY t_a WHERE a = 1
;;
SELECT * FROM t NOT INDEXED WHERE a = 1
;;
SELECT coalesce(nickname, name, 'anonymous') FROM users LIMIT 5, 10
;;
SELECT date(ts, 'unixepoch') AS d, count(*) AS c FROM log GROUP BY d HAVING c > 1 ORDER BY c DESC, d
;;
SELECT strftime('%Y-%m', created) AS month, sum(CASE WHEN kind = 'in' THEN amount ELSE -amount END) AS balance FROM ledger GROUP BY month
;;
SELECT a, (SELECT max(b) FROM u WHERE u.a = t.a) AS m FROM t
;;
SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) AS total
;;
SELECT iif(x > 0, 'yes', 'no'), ifnull(y, 0), nullif(z, ''), replace(s, 'a', 'b'), substr(s, 2, 3), instr(s, 'x'), trim(s), printf('%.2f', f), round(f, 2), abs(n), total(n), typeof(v), quote(v), length(s), upper(s), random() FROM t
;;
SELECT group_concat(DISTINCT tag) FROM tags
;;
SELECT last_insert_rowid(), changes(), total_changes()
;;
SELECT rowid, oid, _rowid_, * FROM t WHERE rowid > 100
;;
SELECT key, value, action, status, type, text, date, first, last, no, "order" FROM settings
;;
SELECT true, false, current_timestamp, CURRENT_DATE, current_time, null
;;
SELECT 1 WHERE 1 = 0
;;
SELECT ALL a, b FROM t ORDER BY a + b DESC, (a - b), -a, lower(c)
;;
SELECT s.id, s.name, t.total FROM students AS s JOIN (SELECT student_id, SUM(points) AS total FROM scores GROUP BY student_id) t ON t.student_id = s.id WHERE t.total >= 50
;;
SELECT name FROM track WHERE milliseconds > 300000 AND unitprice = 0.99 ORDER BY milliseconds LIMIT 5
;;
SELECT ar.Name, COUNT(al.AlbumId) AS albums FROM Artist ar INNER JOIN Album al ON ar.ArtistId = al.ArtistId GROUP BY ar.ArtistId ORDER BY albums DESC
;;
SELECT BillingCountry, ROUND(SUM(Total), 2) AS revenue FROM Invoice GROUP BY BillingCountry HAVING SUM(Total) > 100 ORDER BY revenue DESC
;;
SELECT moz_places.url, moz_places.title, datetime(moz_historyvisits.visit_date/1000000, 'unixepoch') FROM moz_places, moz_historyvisits WHERE moz_places.id = moz_historyvisits.place_id ORDER BY visit_date DESC
;;
SELECT message.text, handle.id FROM message LEFT JOIN handle ON message.handle_id = handle.ROWID WHERE message.is_from_me = 0
;;
SELECT "auth_user"."id", "auth_user"."username" FROM "auth_user" WHERE ("auth_user"."is_active" AND "auth_user"."username" = :name) LIMIT 21
;;
INSERT INTO users (name, email) VALUES ('Ada', 'ada@example.org')
;;
INSERT INTO users VALUES (NULL, 'Ada', 36, x'00ff')
;;
insert into points (x, y) values (1, 2), (3, 4), (-5, 6.5)
;;
INSERT OR IGNORE INTO tags (name) VALUES (?)
;;
INSERT OR REPLACE INTO settings (key, value) VALUES ('theme', 'dark')
;;
REPLACE INTO cache (key, value, expires) VALUES (:key, :value, strftime('%s', 'now') + 3600)
;;
INSERT INTO archive SELECT * FROM orders WHERE created_at < date('now', '-1 year')
;;
INSERT INTO totals (day, amount) SELECT day, SUM(amount) FROM sales GROUP BY day ORDER BY day
;;
INSERT INTO log DEFAULT VALUES
;;
INSERT INTO counters (name, n) VALUES ('hits', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1
;;
INSERT INTO vocabulary(word) VALUES('jovial') ON CONFLICT(word) DO UPDATE SET count=count+1
;;
INSERT INTO phonebook2(name,phonenumber,validDate) VALUES('Alice','704-555-1212','2018-05-08') ON CONFLICT(name) DO UPDATE SET phonenumber=excluded.phonenumber, validDate=excluded.validDate WHERE excluded.validDate>phonebook2.validDate
;;
INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING
;;
INSERT INTO t (a) VALUES (1) ON CONFLICT (a) WHERE b > 0 DO NOTHING ON CONFLICT (c) DO UPDATE SET d = 1 RETURNING *
;;
INSERT INTO t (a, b) VALUES (1, 2) RETURNING id, a + b AS s
;;
WITH x AS (SELECT 1 AS a) INSERT INTO t (a) SELECT a FROM x
;;
INSERT INTO main.t AS n (a, b) VALUES ((SELECT max(a) FROM t), CASE WHEN ? THEN 1 ELSE 0 END)
;;
INSERT INTO t SELECT 1, 2 UNION ALL SELECT 3, 4
;;
INSERT INTO wide VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
;;
INSERT INTO t (id, parent, name) VALUES (1, NULL, 'root'), (2, 1, 'child''s'), (3, 1, "quoted")
;;
UPDATE users SET name = 'Grace' WHERE id = 1
;;
UPDATE users SET active = 0, updated_at = CURRENT_TIMESTAMP WHERE last_login < date('now', '-90 days')
;;
UPDATE OR IGNORE t SET a = a + 1
;;
UPDATE accounts SET balance = balance - 100 WHERE id = ? AND balance >= 100
;;
UPDATE t SET (a, b) = (1, 2), (c, d) = (SELECT x, y FROM u WHERE u.id = t.id)
;;
UPDATE inventory SET quantity = quantity - daily.amt FROM (SELECT sum(quantity) AS amt, itemId FROM sales GROUP BY 2) AS daily WHERE inventory.itemId = daily.itemId
;;
UPDATE t AS x SET a = (SELECT count(*) FROM u WHERE u.t_id = x.id) WHERE x.kind IN ('a', 'b') RETURNING id, a
;;
WITH top AS (SELECT id FROM t ORDER BY score DESC LIMIT 3) UPDATE t SET prize = 1 WHERE id IN (SELECT id FROM top)
;;
UPDATE t SET data = json_set(data, '$.count', json_extract(data, '$.count') + 1) WHERE id = 5
;;
DELETE FROM sessions WHERE expires < strftime('%s', 'now')
;;
DELETE FROM t
;;
DELETE FROM orders WHERE customer_id NOT IN (SELECT id FROM customers) RETURNING id
;;
DELETE FROM a WHERE rowid NOT IN (SELECT MIN(rowid) FROM a GROUP BY email)
;;
WITH old AS (SELECT id FROM logs WHERE ts < 100) DELETE FROM logs WHERE id IN (SELECT id FROM old)
;;
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE)
;;
CREATE TABLE IF NOT EXISTS posts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id INTEGER NOT NULL REFERENCES users(id) ON DELETE CASCADE ON UPDATE NO ACTION,
  title VARCHAR(255) NOT NULL DEFAULT '',
  body TEXT,
  score REAL DEFAULT 0.0 CHECK (score >= 0),
  published BOOLEAN NOT NULL DEFAULT FALSE,
  created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
  UNIQUE (user_id, title),
  CHECK (length(title) > 0)
)
;;
CREATE TABLE order_items (
  order_id INT NOT NULL,
  line INT NOT NULL,
  product_id INT NOT NULL,
  quantity INT NOT NULL DEFAULT 1,
  price DECIMAL(10, 2),
  PRIMARY KEY (order_id, line),
  FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE,
  CONSTRAINT fk_product FOREIGN KEY (product_id) REFERENCES products (id) ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED
)
;;
CREATE TABLE kv (key TEXT PRIMARY KEY NOT NULL, value BLOB) WITHOUT ROWID
;;
CREATE TABLE strict_one (a INT, b TEXT, c REAL, d BLOB, e ANY, f INTEGER PRIMARY KEY) STRICT
;;
CREATE TABLE both (k TEXT PRIMARY KEY, v ANY) STRICT, WITHOUT ROWID
;;
CREATE TEMP TABLE scratch AS SELECT id, count(*) AS n FROM t GROUP BY id
;;
CREATE TEMPORARY TABLE IF NOT EXISTS t2 (a, b, c)
;;
CREATE TABLE t1 (a INTEGER PRIMARY KEY, b INT, c TEXT, d INT GENERATED ALWAYS AS (a*abs(b)) VIRTUAL, e TEXT GENERATED ALWAYS AS (substr(c,b,b+1)) STORED, f AS (a || b))
;;
CREATE TABLE main.t (id UNSIGNED BIG INT, name NATIVE CHARACTER(70) COLLATE NOCASE, d DOUBLE PRECISION DEFAULT -1.5, e TEXT DEFAULT (datetime('now')))
;;
CREATE TABLE "quoted table" ("a column" TEXT, [another] INT, `third` REAL)
;;
CREATE TABLE track (trackid INTEGER, trackname TEXT, trackartist INTEGER, FOREIGN KEY (trackartist) REFERENCES artist (artistid))
;;
CREATE TABLE song (songid INTEGER, songartist TEXT, songalbum TEXT, FOREIGN KEY (songartist, songalbum) REFERENCES album (albumartist, albumname))
;;
CREATE TABLE c (x INTEGER CONSTRAINT positive CHECK (x > 0) CONSTRAINT known NOT NULL ON CONFLICT FAIL, UNIQUE (x DESC) ON CONFLICT REPLACE)
;;
CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY, "session_data" text NOT NULL, "expire_date" datetime NOT NULL)
;;
CREATE TABLE "auth_permission" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "content_type_id" integer NOT NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED, "codename" varchar(100) NOT NULL)
;;
CREATE INDEX idx_users_email ON users (email)
;;
CREATE UNIQUE INDEX IF NOT EXISTS main.idx ON t (a COLLATE NOCASE DESC, b ASC, lower(c)) WHERE d IS NOT NULL
;;
DROP TABLE IF EXISTS users
;;
DROP INDEX main.idx;
;;
DROP VIEW v
