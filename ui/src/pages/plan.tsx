import { useEffect, useState } from "preact/hooks";
import { explain, lines, send, type Failure } from "../api";
import { keepOpen } from "../connection";
import { age, symbol } from "../format";
import { useWords } from "../i18n";
import { Button, Confirm, Section } from "../parts/common";
import { Diff } from "../parts/diff";
import { Violations } from "../parts/policies";
import { now, useStore } from "../store";
import type { Can, Entry, Plan, PlanEnd, PlanLine, Workspace } from "../types";

/** approver is the role that decides about plans and restores states. */
export const approver = "capt-approver";

/** usePlan reads the latest plan of a workspace, until that succeeds. Its end is undefined before. */
function usePlan(path: string, status: Workspace["plan"]): { plan?: Plan; entries: Entry[]; end?: PlanEnd } {
  const words = useWords();
  const [read, set] = useState<{ plan?: Plan; entries: Entry[]; end?: PlanEnd }>({ entries: [] });
  useEffect(() => {
    set({ entries: [] });
    if (!status) return;
    const fail = (error: Failure) => set({ entries: [], end: { details: false, error: explain(error, words.needs) } });
    return keepOpen({
      connect: async (signal, heard) => {
        let plan: Plan | undefined;
        let end: PlanEnd | undefined;
        const entries: Entry[] = [];
        await lines<PlanLine>(path + "/plan", signal, (line) => {
          heard();
          if (line.plan) plan = line.plan;
          if (line.entry) entries.push(line.entry);
          if (line.end) end = line.end;
        });
        if (end) set({ plan, entries, end });
        return !!end;
      },
      report: (_, why) => why && fail(why),
      refused: fail,
    });
  }, [path, status?.id, status?.waiting]);
  return read;
}

/** PlanPanel shows the latest plan of a workspace, and asks for a decision about it. */
export function PlanPanel({ workspace, path, can }: { workspace: Workspace; path: string; can?: Can }) {
  const words = useWords();
  const time = useStore(now);
  const status = workspace.plan;
  const { plan, entries, end } = usePlan(path, status);
  // A question is about one plan. It is withdrawn when another plan takes its place.
  const [question, ask] = useState<{ kind: "approve" | "reject"; plan: string } | undefined>();
  useEffect(() => ask(undefined), [path, status?.id, status?.waiting]);
  if (!status)
    return (
      <Section title={words.plan}>
        <p class="quiet">{words.noPlan}</p>
      </Section>
    );
  const waiting = !!status.waiting;
  const denied = status.policyAction === "Deny";
  const blocked = status.blocked ?? [];
  const ready = !!end && !end.error && plan?.id === status.id;
  const asked = question?.plan === status.id && waiting && !denied ? question.kind : "";
  return (
    <Section
      title={words.plan}
      class={waiting ? "attention" : ""}
      extra={<span class="quiet">{words.planOf(status.id, age(status.createdAt, time))}</span>}
    >
      <p>
        <strong>{words.planSummary(status.add, status.change, status.destroy)}.</strong>{" "}
        {waiting && (denied ? words.planDenied : blocked.length ? words.planBlocked : words.planWaits)} {status.approvedBy && words.approvedBy(status.approvedBy)}
      </p>
      {status.comment && <p class="comment">{words.commentIs(status.comment)}</p>}
      <Violations plan={status} />
      {waiting && !denied && (
        <div class="row">
          <Button kind="primary" disabled={!ready || (can && !can.approve)} title={ready ? undefined : words.reviewFirst} onClick={() => ask({ kind: "approve", plan: status.id })}>
            {words.approve}
          </Button>
          <Button disabled={can && !can.approve} onClick={() => ask({ kind: "reject", plan: status.id })}>
            {words.reject}
          </Button>
          {can && !can.approve && <span class="note">{words.mayNotApprove(approver)}</span>}
        </div>
      )}
      {plan && end && <Diff plan={plan} entries={entries} />}
      {end?.missing && <p class="note">{words.needs(end.missing, "capt-viewer")}</p>}
      {end && !end.details && !end.missing && !end.error && !!plan?.resources?.length && <p class="quiet">{words.noDetails}</p>}
      {end?.error && <p class="note">{end.error}</p>}
      {asked === "approve" && ready && <Approve workspace={workspace} plan={plan} path={path} onClose={() => ask(undefined)} />}
      {asked === "reject" && <Reject name={workspace.name} plan={status.id} path={path} onClose={() => ask(undefined)} />}
    </Section>
  );
}

/** Comment is the field for what the user writes about a decision. */
function Comment({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const words = useWords();
  return (
    <label class="field">
      {words.comment}
      <input type="text" value={value} maxLength={500} autocomplete="off" onInput={(e) => onChange(e.currentTarget.value)} />
    </label>
  );
}

function Reject({ name, plan, path, onClose }: { name: string; plan: string; path: string; onClose: () => void }) {
  const words = useWords();
  const [comment, setComment] = useState("");
  return (
    <Confirm
      title={words.rejectTitle(name)}
      action={words.reject}
      kind="danger"
      run={() => send(path + "/reject", { plan, comment }, words.rejected, words.needs)}
      onClose={onClose}
    >
      <p>{words.rejectText}</p>
      <Comment value={comment} onChange={setComment} />
    </Confirm>
  );
}

function Approve({ workspace, plan, path, onClose }: { workspace: Workspace; plan: Plan; path: string; onClose: () => void }) {
  const words = useWords();
  const blocked = plan.blocked ?? [];
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [comment, setComment] = useState("");
  const destroyed = (plan.resources ?? []).filter((r) => r.action === "delete" || r.action === "replace");
  const complete = blocked.every((address) => typed[address]?.trim() === address);
  return (
    <Confirm
      title={plan.operation === "Destroy" ? words.destroyTitle(workspace.name, plan.destroy) : words.approveTitle(workspace.name)}
      action={words.approve}
      kind="primary"
      disabled={!complete}
      run={() => send(path + "/approve", { plan: plan.id, allowDestroy: blocked, comment }, words.approved, words.needs)}
      onClose={onClose}
    >
      <p>
        {words.planSummary(plan.add, plan.change, plan.destroy)}. <code>{plan.id}</code>
      </p>
      {workspace.plan && <Violations plan={workspace.plan} />}
      {!!destroyed.length && (
        <>
          <p>{words.destroyed}</p>
          <ul class="destroyed">
            {destroyed.slice(0, 50).map((r) => (
              <li key={r.address}>
                <span class="sign">{symbol(r.action)}</span> <code>{r.address}</code>
              </li>
            ))}
            {destroyed.length > 50 && <li>{words.omitted(destroyed.length - 50)}</li>}
          </ul>
        </>
      )}
      {blocked.map((address) => (
        <label key={address} class="field">
          {words.typeAddress(address)}
          <input type="text" value={typed[address] ?? ""} autocomplete="off" spellcheck={false} onInput={(e) => setTyped({ ...typed, [address]: e.currentTarget.value })} />
        </label>
      ))}
      <Comment value={comment} onChange={setComment} />
    </Confirm>
  );
}
