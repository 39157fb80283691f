-- A producer for psql. An order is committed together with its event, or not at all.
--
--   psql -X -q -A -t -v way=function -v mode=commit -v order=1 -f producer.sql postgres://localhost/shop

select :'way' <> 'insert' as by_function,
       :'mode' = 'duplicate' as again,
       '6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40' as tenant
\gset
select gen_random_uuid() as event,
       case :'mode' when 'rollback' then 'unicorn' else '21" lamp' end as item,
       case :'mode'
         when 'bad-topic' then 'Order placed'
         when 'no-topic' then ''
         else 'shop.order.placed.v1'
       end as topic,
       case :'mode'
         when 'race' then :'tenant' || '/race-' || :order -- the same event as in other languages
         when 'bad-tenant' then 'another/sql-' || :order
         else :'tenant' || '/sql-' || :order
       end as dedupe_key
\gset
\ir place.sql

\if :again
  \set first :event
  select gen_random_uuid() as event \gset
  \ir place.sql
  \set event :first
  \set dedupe_key ''
  \ir place.sql
\endif
