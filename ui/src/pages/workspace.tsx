import { useEffect, useRef, useState } from "preact/hooks";
import { act, explain, get, send } from "../api";
import { age, duration, parseDuration, symbol } from "../format";
import { useWords } from "../i18n";
import { Age, Button, Conditions, Confirm, Facts, Heading, Mark, Meter, Section, StateBadge, useProblem, type Fact } from "../parts/common";
import { Log } from "../parts/log";
import { clusterPath } from "../router";
import { now, useStore } from "../store";
import { useOne } from "../stream";
import type { Can, Lock, Snapshot, State, Workspace } from "../types";
import { Gone, Loading } from "./missing";
import { approver, PlanPanel } from "./plan";

export function WorkspacePage({ ns, name }: { ns: string; name: string }) {
  const words = useWords();
  const live = useOne<Workspace>(`workspace/${ns}/${name}`, "workspace");
  // What was shown stays when the workspace is deleted: the end of its log is read then.
  const last = useRef<Workspace | undefined>(undefined);
  if (live) last.current = live;
  const hidden = useProblem("WorkspaceTemplateApply");
  const deleted = live === null;
  const workspace = live ?? (hidden ? live : (last.current ?? live));
  const path = `workspaces/${encodeURIComponent(ns)}/${encodeURIComponent(name)}`;
  const [can, setCan] = useState<Can | undefined>();
  useEffect(() => {
    get<Can>(path + "/can").then(setCan, () => undefined);
  }, [path]);
  const [question, ask] = useState<"" | "unlock">("");
  if (workspace === undefined) return <Loading title={name} />;
  if (workspace === null) return <Gone title={name} kind="WorkspaceTemplateApply" />;
  const { node, run } = workspace;
  const facts: Fact[] = [
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
          {deleted ? null : run ? (
            <Button disabled={can && !can.change} onClick={() => act(path + "/cancel", { run: run.id }, words.cancelled, words.needs)}>
              {words.cancelRun}
            </Button>
          ) : (
            <>
              {workspace.failure?.reason === "LockHeld" && <Button disabled={can && !can.state} onClick={() => ask("unlock")}>{words.unlock}</Button>}
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
      {deleted && (
        <p class="note" role="status">
          {words.gone}
        </p>
      )}
      {!deleted && can && !can.change && <p class="quiet">{words.mayNotChange("capt-editor")}</p>}
      {node.state !== "Ready" && node.message && <p class="lead" lang="en">{node.message}</p>}
      <Facts facts={facts} />
      {run && !deleted && <Running run={run} />}
      {!deleted && <PlanPanel workspace={workspace} path={path} can={can} />}
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
        <Section title={words.driftTitle}>
          <Drift workspace={workspace} />
        </Section>
      </div>
      <div class="columns">
        {!deleted && <SnapshotPanel path={path} can={can} />}
        <Section title={words.module}>
          <Facts
            facts={[
              [words.source, workspace.source ?? workspace.template],
              [words.revision, workspace.revision],
            ]}
          />
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
  // A run in progress is followed, and its log stays when it has ended; that of an earlier
  // run is read when it is wanted.
  const [followed, follow] = useState("");
  const current = workspace.run?.id;
  useEffect(() => {
    if (current) follow(current);
  }, [current]);
  const run = chosen || current || followed;
  const all = [...new Set([...(run ? [run] : []), ...runs])];
  if (!all.length) return null;
  return (
    <Section
      title={words.log}
      extra={
        run && all.length > 1 ? (
          <select aria-label={words.run} value={chosen} onChange={(e) => choose(e.currentTarget.value)}>
            <option value="">{words.latestRun}</option>
            {all.map((id) => (
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

const outcomes: Record<string, State> = { Failed: "Failed", TimedOut: "Failed", Lost: "Failed", Planned: "Attention", Blocked: "Attention", Denied: "Attention", Canceled: "Attention", Interrupted: "Waiting" };

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
              {r.summary && <span class="message" lang="en">{r.summary}</span>}
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
      {!!snapshots?.length && can && !can.state && <p class="quiet">{words.mayNotRestore(approver)}</p>}
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
            <Button disabled={can && !can.state} onClick={() => choose(s)}>
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
