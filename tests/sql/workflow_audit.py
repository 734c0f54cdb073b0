"""Checks that a family of workflows has reached the end that the pure model predicts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from family_audit import NODE_ENDS, Family
from workflow_model import End, Expected, Facts, Flow, Step, code_of, expected, plain

OPENED = {(old, new) for old in NODE_ENDS for new in ("PENDING", "READY")}


@dataclass(frozen=True)
class Verdict:
    """Compares the rows with the model; the ledger supplies what the model cannot know."""

    family: Family

    def check_model(self, flow: Flow, root: str) -> None:
        """Compare, unless the workflow was cancelled."""
        self._compare(flow, root, None if self._is(root, "CANCELLED") else expected(flow, self.facts(root)))
        self._check_given()

    def facts(self, workflow_id: str) -> Facts:
        """The events of the workflow, from the ledger; the ends of nodes are not used here."""
        facts = Facts(cancelled=self._is(workflow_id, "CANCELLED"))
        facts.timely = {
            change["index"]
            for change in self.family.changes
            if change["workflow_id"] == workflow_id and (change["old"], change["new"]) in OPENED
        }
        for node in self.family.nodes[workflow_id]:
            index, task_id = node["task_index"], node["task_id"]
            if (workflow_id, index) in self.family.ledger.decided:
                value = self.family.ledger.decided[workflow_id, index]
                facts.decided[index] = End("SKIPPED") if value is None else End("COMPLETED", {"ok": value})
            if task_id in self.family.ledger.ended_by_hand:
                facts.broke[index] = self.family.ledger.ended_by_hand[task_id]
            if task_id is not None:
                for end in self.family.ledger.accepted.get(task_id, []):
                    if end in ("WORKER_CRASHED", "TRY_AGAIN"):
                        facts.broke[index] = end
                if self.family.ledger.firsts.get((workflow_id, index), task_id) != task_id:
                    facts.again.add(index)
            if node["sub_workflow_id"] is not None:
                facts.children[index] = self.facts(node["sub_workflow_id"])
        return facts

    def _compare(self, flow: Flow | None, workflow_id: str, model: Expected | None) -> None:
        row, nodes = self.family.flows[workflow_id], self.family.nodes[workflow_id]
        if model is None:
            return
        told = [
            (node["status"], None if node["result"] is None else plain(json.loads(node["result"]))) for node in nodes
        ]
        assert told == [(end.status, end.plain) for end in model.ends]
        assert row["status"] == model.status
        assert (None if row["result"] is None else plain(json.loads(row["result"]))) == model.plain
        error = None if row["error"] is None else code_of(json.loads(row["error"]))
        if model.status == "FAILED":
            assert error == model.code
        else:
            # A success that a policy allowed keeps the error that came first.
            assert error is None or (flow is not None and flow.cases is not None)
        for index, child in model.children.items():
            step: Step | None = flow.steps[index] if flow is not None else None
            child_id = nodes[index]["sub_workflow_id"]
            assert child_id is not None
            self._compare(step.child if step is not None else None, child_id, child)

    def _check_given(self) -> None:
        """Each task received the ends of its nodes; of a node that was opened again it may be an older failure."""
        for place, given in self.family.ledger.given.values():
            for name, result in given.items():
                source = self.family.nodes[place[0]][int(name[1:])]
                now = None if source["result"] is None else plain(json.loads(source["result"]))
                if now is None:
                    now = {"err": "UPSTREAM_SKIPPED"}
                assert result == now or (self.family.ledger.retried and "err" in result)

    def _is(self, workflow_id: str, status: str) -> bool:
        return bool(self.family.flows[workflow_id]["status"] == status)
