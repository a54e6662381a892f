-- SPDX-License-Identifier: Apache-2.0
-- What bench/ld-builds has sqlite3 do beside its inserts: joins, windows, recursion, full text, JSON, trees, errors.
create table t(a integer primary key, b, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
  insert into t select i, (i * 7919) % 1009, printf('%s-%05d', substr('abcdefgh', 1 + i % 8, 1), i) from n;
create index tb on t(b, c);
select count(*), sum(b), group_concat(distinct substr(c, 1, 1)) from t where b between 100 and 800;
select x.a, y.c from t x join t y on x.b = y.a where x.c like 'c-%' order by y.c desc limit 20;
select a, sum(b) over (partition by b % 5 order by a rows 3 preceding), rank() over (order by c) from t limit 30;
create virtual table f using fts5(w);
insert into f select c || ' ' || hex(b) from t;
select count(*) from f where f match '"a" or 3939*';
create virtual table r using rtree(id, x0, x1, y0, y1);
insert into r select a, b, b + 3, a % 97, a % 97 + 2 from t;
select count(*) from r where x0 < 500 and y1 > 40;
select json_extract(json_group_array(json_object('a', a, 'b', b)), '$[7].b') from t;
begin; delete from t where b % 3 = 0; savepoint s; update t set c = upper(c); rollback to s; commit;
select count(*), max(c), round(avg(b), 6), total(a) from t;
insert into t values (1, 2, 3), (1, 2, 3);
explain query plan select * from t where b = 7 order by c;
select no_such_function(1);
vacuum; pragma integrity_check;
