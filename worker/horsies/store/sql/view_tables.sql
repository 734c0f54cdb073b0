-- views; reads only: which of our own tables are here, for upstream makes none of them
SELECT to_regclass('horsies_operator_actions') IS NOT NULL AS actions,
       to_regclass('horsies_queue_state') IS NOT NULL AS queue_state,
       to_regclass('horsies_worker_orders') IS NOT NULL AS worker_orders,
       to_regclass('horsies_worker_losses') IS NOT NULL AS worker_losses,
       statement_timestamp() AS now
