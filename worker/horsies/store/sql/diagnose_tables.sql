-- cluster.py; reads only. Which of our own tables are here, for upstream makes none of them; and from here on in this
-- transaction, a time that upstream stored without a zone is read as what it is
SELECT now() AS now, set_config('TimeZone', 'UTC', true),
       to_regclass('horsies_queue_state') IS NOT NULL AS queue_state,
       to_regclass('horsies_worker_orders') IS NOT NULL AS worker_orders,
       to_regclass('horsies_worker_losses') IS NOT NULL AS worker_losses,
       to_regclass('horsies_sweep_state') IS NOT NULL AS sweep_state,
       COALESCE(has_table_privilege(to_regclass('horsies_pulse'), 'SELECT'), false) AS pulse
