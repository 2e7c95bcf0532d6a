import { useEffect, useState } from "preact/hooks";
import { act, explain, get, lines, send } from "../api";
import { age, duration, parseDuration, symbol } from "../format";
import { useWords } from "../i18n";
import { Age, Button, Conditions, Confirm, Heading, Mark, Meter, Section, StateBadge } from "../parts/common";
import { Diff } from "../parts/diff";
import { Log } from "../parts/log";
import { clusterPath } from "../router";
import { now, useStore } from "../store";
import { useOne } from "../stream";
import type { Can, Entry, Lock, Plan, PlanEnd, PlanLine, Snapshot, State, Workspace } from "../types";
import { Gone, Loading } from "./missing";

const approver = "capt-approver";

export function WorkspacePage({ ns, name }: { ns: string; name: string }) {
  const words = useWords();
  const workspace = useOne<Workspace>(`workspace/${ns}/${name}`, "workspace");
  const path = `workspaces/${encodeURIComponent(ns)}/${encodeURIComponent(name)}`;
  const [can, setCan] = useState<Can | undefined>();
  useEffect(() => {
    get<Can>(path + "/can").then(setCan, () => undefined);
  }, [path]);
  const [question, ask] = useState<"" | "unlock">("");
  if (workspace === undefined) return <Loading title={name} />;
  if (workspace === null) return <Gone title={name} kind="WorkspaceTemplateApply" />;
  const { node, run } = workspace;
  const facts: [string, preact.ComponentChildren][] = [
    [words.namespace, ns],
    [words.cluster, workspace.cluster && <a href={clusterPath(ns, workspace.cluster)}>{workspace.cluster}</a>],
    [words.template, workspace.template],
    [words.stateOf, workspace.state?.resources !== undefined && words.resources(workspace.state.resources)],
    [words.age, <Age since={workspace.created} />],
  ];
  return (
    <>
      <header class="title">
        <Heading>{name}</Heading>
        <StateBadge state={node.state ?? ""} text={node.state === "Ready" ? undefined : node.reason} />
        <span class="end buttons">
          {run ? (
            <Button disabled={can && !can.change} onClick={() => act(path + "/cancel", { run: run.id }, words.cancelled, words.needs)}>
              {words.cancelRun}
            </Button>
          ) : (
            <>
              {workspace.failure?.reason === "LockHeld" && <Button onClick={() => ask("unlock")}>{words.unlock}</Button>}
              <Button disabled={can && !can.change} onClick={() => act(path + "/drift", {}, words.driftRequested, words.needs)}>
                {words.checkDrift}
              </Button>
              <Button disabled={can && !can.change} onClick={() => act(path + "/retry", {}, words.retried, words.needs)}>
                {words.retry}
              </Button>
            </>
          )}
        </span>
      </header>
      {node.state !== "Ready" && node.message && <p class="lead">{node.message}</p>}
      <dl class="facts">
        {facts
          .filter(([, value]) => value)
          .map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {run && <Running run={run} />}
      <PlanPanel workspace={workspace} path={path} can={can} />
      <LogPanel workspace={workspace} path={path} />
      <div class="columns">
        <Section title={words.problems}>
          <Conditions conditions={workspace.conditions} subject={`Workspace/${name}`} />
        </Section>
        <History workspace={workspace} />
      </div>
      <div class="columns">
        <Section title={words.outputs}>
          <Outputs workspace={workspace} />
        </Section>
        <Section title="Drift">
          <Drift workspace={workspace} />
        </Section>
      </div>
      <div class="columns">
        <SnapshotPanel path={path} can={can} />
        <Section title={words.module}>
          <dl class="facts">
            <div>
              <dt>{words.source}</dt>
              <dd class="break">{workspace.source ?? workspace.template}</dd>
            </div>
            {workspace.revision && (
              <div>
                <dt>{words.revision}</dt>
                <dd class="break">{workspace.revision}</dd>
              </div>
            )}
          </dl>
        </Section>
      </div>
      {question === "unlock" && <Unlock path={path} onClose={() => ask("")} />}
    </>
  );
}

function Running({ run }: { run: NonNullable<Workspace["run"]> }) {
  const words = useWords();
  const p = run.progress;
  return (
    <Section title={`${words.run} ${run.id}`} extra={<span class="quiet">{run.operation} <Age since={run.startedAt} /></span>}>
      <Meter value={p?.done ?? 0} max={p?.total ?? 0} label={words.progress(p?.done ?? 0, p?.total ?? 0)} />
      <p>
        {p?.phase} {!!p?.total && words.progress(p.done, p.total)}
      </p>
      <ul role="list">
        {p?.current?.map((c) => (
          <li key={c.address}>
            <span class="quiet">{c.action}</span> <code>{c.address}</code> <Age since={c.since} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function PlanPanel({ workspace, path, can }: { workspace: Workspace; path: string; can?: Can }) {
  const words = useWords();
  const time = useStore(now);
  const status = workspace.plan;
  const [plan, setPlan] = useState<Plan | undefined>();
  const [entries, setEntries] = useState<Entry[]>([]);
  const [end, setEnd] = useState<PlanEnd | undefined>();
  // A question is about one plan. It is withdrawn when another plan takes its place.
  const [question, ask] = useState<{ kind: "approve" | "reject"; plan: string } | undefined>();
  useEffect(() => {
    ask(undefined);
    setPlan(undefined);
    setEntries([]);
    setEnd(undefined);
    if (!status) return;
    const abort = new AbortController();
    const collected: Entry[] = [];
    lines<PlanLine>(path + "/plan", abort.signal, (line) => {
      if (line.plan) setPlan(line.plan);
      if (line.entry) collected.push(line.entry);
      if (line.end) {
        setEntries(collected);
        setEnd(line.end);
      }
    }).catch((error: unknown) => {
      if (!abort.signal.aborted) setEnd({ details: false, error: explain(error, words.needs) });
    });
    return () => abort.abort();
  }, [path, status?.id, status?.waiting]);
  if (!status)
    return (
      <Section title={words.plan}>
        <p class="quiet">{words.noPlan}</p>
      </Section>
    );
  const waiting = !!status.waiting;
  const blocked = status.blocked ?? [];
  const ready = !!end && !end.error && plan?.id === status.id;
  const asked = question?.plan === status.id && waiting ? question.kind : "";
  return (
    <Section
      title={words.plan}
      class={waiting ? "attention" : ""}
      extra={<span class="quiet">{words.planOf(status.id, age(status.createdAt, time))}</span>}
    >
      <p>
        <strong>{words.planSummary(status.add, status.change, status.destroy)}.</strong>{" "}
        {waiting && (blocked.length ? words.planBlocked : words.planWaits)} {status.approvedBy && words.approvedBy(status.approvedBy)}
      </p>
      {status.comment && <p class="comment">{words.commentIs(status.comment)}</p>}
      {waiting && (
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
      {end?.missing && <p class="note">{words.needs(end.missing, "")}</p>}
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

function Unlock({ path, onClose }: { path: string; onClose: () => void }) {
  const words = useWords();
  const [lock, setLock] = useState<Lock | null | undefined>();
  const [error, setError] = useState("");
  useEffect(() => {
    get<Lock | null>(path + "/lock").then(setLock, (e: unknown) => setError(explain(e, words.needs)));
  }, [path]);
  return (
    <Confirm
      title={words.unlockTitle}
      action={words.unlock}
      kind="danger"
      disabled={!lock}
      run={() => send(path + "/unlock", { lock: lock!.id }, words.unlocked, words.needs)}
      onClose={onClose}
    >
      {error && <p class="note">{error}</p>}
      {lock === null && <p>{words.notLocked}</p>}
      {lock && (
        <p>
          <code>{lock.id}</code> {lock.operation} {lock.who} {lock.where} <Age since={lock.created} suffix />
        </p>
      )}
      <p>{words.unlockText}</p>
    </Confirm>
  );
}

function LogPanel({ workspace, path }: { workspace: Workspace; path: string }) {
  const words = useWords();
  const runs = [...(workspace.run ? [workspace.run.id] : []), ...(workspace.history ?? []).map((r) => r.id)];
  const [chosen, choose] = useState("");
  // A run in progress is followed; the log of a finished one is read when it is wanted.
  const run = chosen || workspace.run?.id || "";
  if (!runs.length) return null;
  return (
    <Section
      title={words.log}
      extra={
        run && runs.length > 1 ? (
          <select aria-label={words.run} value={run} onChange={(e) => choose(e.currentTarget.value)}>
            {[...new Set([run, ...runs])].map((id) => (
              <option key={id}>{id}</option>
            ))}
          </select>
        ) : undefined
      }
    >
      {run ? <Log path={path} run={run} /> : <Button onClick={() => choose(runs[0]!)}>{words.showLog}</Button>}
    </Section>
  );
}

const outcomes: Record<string, State> = { Failed: "Failed", TimedOut: "Failed", Lost: "Failed", Planned: "Attention", Blocked: "Attention", Canceled: "Attention", Interrupted: "Waiting" };

function History({ workspace }: { workspace: Workspace }) {
  const words = useWords();
  const history = workspace.history ?? [];
  const longest = Math.max(1, ...history.map((r) => parseDuration(r.duration)));
  const older = workspace.runs - history.length - (workspace.run ? 1 : 0);
  return (
    <Section title={words.history}>
      {!history.length && <p class="quiet">{words.noHistory}</p>}
      <ul role="list" class="events">
        {history.map((r) => (
          <li key={r.id}>
            <Mark state={outcomes[r.outcome] ?? "Ready"} />
            <span class="event-text">
              <strong>{r.operation}</strong> {r.outcome}{" "}
              <span class="quiet">
                {duration(parseDuration(r.duration))}, <Age since={r.startedAt} suffix />
              </span>
              <span class="history-bar" aria-hidden="true">
                <span class={outcomes[r.outcome] ?? "Ready"} style={{ width: `max(2px, ${(100 * parseDuration(r.duration)) / longest}%)` }} />
              </span>
              {r.summary && <span class="message">{r.summary}</span>}
            </span>
          </li>
        ))}
      </ul>
      {older > 0 && <p class="quiet">{words.olderRuns(older)}</p>}
    </Section>
  );
}

function Outputs({ workspace }: { workspace: Workspace }) {
  const words = useWords();
  const outputs = Object.entries(workspace.outputs ?? {});
  return (
    <>
      {!outputs.length && <p class="quiet">{words.noOutputs}</p>}
      <dl class="outputs">
        {outputs.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <code>{typeof value === "string" ? value : JSON.stringify(value)}</code>
            </dd>
          </div>
        ))}
      </dl>
      {workspace.outputSecret && <p class="quiet">{words.sensitiveOutputs(workspace.outputSecret)}</p>}
    </>
  );
}

function Drift({ workspace }: { workspace: Workspace }) {
  const words = useWords();
  const time = useStore(now);
  const drift = workspace.drift;
  if (!drift?.checkedAt && !drift?.failure) return <p class="quiet">{words.notChecked}</p>;
  return (
    <>
      <p class="quiet">
        {!drift.resources?.length && words.noDrift} {drift.checkedAt && words.checked(age(drift.checkedAt, time))}
      </p>
      {drift.failure && <p class="note">{drift.failure}</p>}
      <ul role="list">
        {drift.resources?.map((r) => (
          <li key={r.address}>
            <span class="sign">{symbol(r.action)}</span> <code>{r.address}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function SnapshotPanel({ path, can }: { path: string; can?: Can }) {
  const words = useWords();
  const [snapshots, setSnapshots] = useState<Snapshot[] | undefined>();
  const [error, setError] = useState("");
  const [chosen, choose] = useState<Snapshot | undefined>();
  const load = () => get<Snapshot[]>(path + "/snapshots").then(setSnapshots, (e: unknown) => setError(explain(e, words.needs)));
  return (
    <Section title={words.snapshots}>
      {error && <p class="note">{error}</p>}
      {!snapshots && !error && <Button onClick={load}>{words.showSnapshots}</Button>}
      {snapshots?.length === 0 && <p class="quiet">{words.noSnapshots}</p>}
      <ul role="list" class="events">
        {snapshots?.map((s) => (
          <li key={s.name}>
            <span class="event-text">
              <code>{s.name}</code>{" "}
              <span class="quiet">
                <Age since={s.taken} suffix /> {s.resources !== undefined && words.resources(s.resources)}
              </span>
            </span>
            <Button disabled={can && !can.approve} onClick={() => choose(s)}>
              {words.restore}
            </Button>
          </li>
        ))}
      </ul>
      {chosen && (
        <Confirm
          title={words.restoreTitle(chosen.name)}
          action={words.restore}
          kind="danger"
          run={() => send(path + "/restore", { snapshot: chosen.name, hold: true }, words.restored, words.needs)}
          onClose={() => choose(undefined)}
        >
          <p>{words.restoreText}</p>
        </Confirm>
      )}
    </Section>
  );
}
