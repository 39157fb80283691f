-- Writes an order and its event in one transaction: both are there afterwards, or neither.
-- Variables: order, item, event, topic, tenant, dedupe_key (or empty), by_function.

begin;
insert into sql_orders (number, item) values (:order, :'item') on conflict do nothing;
\if :by_function
  select event_id as found, new
  from orders_outbox_enqueue(
    topic => :'topic', payload => jsonb_build_object('order', :order, 'item', :'item'), id => :'event',
    tenant_id => :'tenant', dedupe_key => nullif(:'dedupe_key', ''), headers => '{"source": "sql"}')
  \gset
\else
  insert into orders_outbox (topic, payload, id, tenant_id, dedupe_key, headers)
  values (:'topic', jsonb_build_object('order', :order, 'item', :'item'), :'event',
    :'tenant', nullif(:'dedupe_key', ''), '{"source": "sql"}')
  on conflict do nothing;
  \set new :ROW_COUNT
  \set found :event
\endif

-- What the last statement came to; the next one would overwrite it.
\set failed :ERROR
\set state :SQLSTATE
\set problem :LAST_ERROR_MESSAGE
\if :failed
  rollback;
  select :'state' = '22023' or :'problem' like '%"orders_outbox_topic%' as bad_topic,
         :'problem' like '%"orders_outbox_tenant"%' as bad_tenant
  \gset
  \if :bad_topic
    \echo :order refused topic :state
  \elif :bad_tenant
    \echo :order refused tenant :state
  \else
    \warn :order :state :problem
  \endif
\else
  select :'item' = 'unicorn' as sold_out \gset
  \if :sold_out
    rollback; -- noticed late: the order goes, and its event with it
    \echo :order sold out
  \else
    commit;
    \if :new
      \echo :order new :found
    \elif :by_function
      \echo :order known :found
    \else
      \echo :order known
    \endif
  \endif
\endif
