-- name: audit_workflow
-- operations/workflows.py, in the transaction of the action; writes only the audit row
-- ($1 operation, $2 verb, $3 kind, $4 target, $5 outcome, $6 detail, $7 before, $8 after, $9 OS user, $10 OS host,
-- $11 reason, $12 audit row that is undone, $13 filter)
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state, after_state,
                                      os_user, os_host, reason, undoes, filter)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8::jsonb, $9, $10, $11, $12, $13)
