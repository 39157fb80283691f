-- session_presence: the session that stands for a relay.
listen posthaste;
-- A host that vanishes does not say so. The server looks after this session itself, else its locks, and with
-- them the leases and the lead of whoever is gone, would stay for as long as the system keeps connections: hours.
set tcp_keepalives_idle = 5;
set tcp_keepalives_interval = 2;
set tcp_keepalives_count = 3;
set tcp_user_timeout = 10000;
-- Whoever waited for a row goes on with what it is now, whatever the database prefers.
set default_transaction_isolation = 'read committed';
-- Each statement is given its time, and stopped after it, by whoever sent it.
set statement_timeout = 0;
