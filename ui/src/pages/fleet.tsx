import { useEffect, useMemo, useRef } from "preact/hooks";
import { severity, states } from "../format";
import { useWords } from "../i18n";
import { Age, DeniedNote, Heading, Mark, Progress, StateBadge, useProblem } from "../parts/common";
import { PolicyBadge, policyActions } from "../parts/policies";
import { Virtual } from "../parts/virtual";
import { address, addonPath, clusterPath, setQuery } from "../router";
import { Store, useStore } from "../store";
import { useList } from "../stream";
import type { Row, State } from "../types";

/** narrow is true on a phone. */
const narrow = new Store(typeof matchMedia !== "undefined" && matchMedia("(max-width: 640px)").matches);
if (typeof matchMedia !== "undefined") matchMedia("(max-width: 640px)").addEventListener("change", (e) => (narrow.value = e.matches));

export interface Filter {
  q: string;
  ns: string;
  state: string;
  policy: string;
}

const filters = ["q", "ns", "state", "policy"] as const;

/** select returns the rows that match a filter, those that need a user first. */
export function select(rows: Iterable<Row>, filter: Filter): Row[] {
  const q = filter.q.toLowerCase();
  return [...rows]
    .filter(
      (row) =>
        (!filter.ns || row.ns === filter.ns) &&
        (!filter.state || group(row.state) === filter.state) &&
        (!filter.policy || row.policy === filter.policy) &&
        (!q || [row.ns, row.name, row.region, row.version, row.reason, row.message].some((text) => text?.toLowerCase().includes(q))),
    )
    .sort((a, b) => severity(a.state) - severity(b.state) || a.ns.localeCompare(b.ns) || a.name.localeCompare(b.name));
}

/** group returns the counter that a state belongs to. */
export const group = (state: State): State => (state === "Unknown" ? "Waiting" : state);

export function Fleet() {
  const words = useWords();
  const query = new URLSearchParams(useStore(address).split("?")[1] ?? "");
  const filter: Filter = { q: query.get("q") ?? "", ns: query.get("ns") ?? "", state: query.get("state") ?? "", policy: query.get("policy") ?? "" };
  const list = useList<Row>("fleet", "rows");
  const isNarrow = useStore(narrow);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "/" || (event.target as Element).matches("input, textarea, select")) return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const rows = useMemo(() => select(list.items.values(), filter), [list, ...filters.map((name) => filter[name])]);
  const counted = useMemo(() => [...list.items.values()].filter((row) => !filter.ns || row.ns === filter.ns), [list, filter.ns]);
  const namespaces = useMemo(() => [...new Set([...list.items.values()].map((row) => row.ns))].sort(), [list]);
  const decisions = useMemo(() => policyActions.filter((action) => action === filter.policy || counted.some((row) => row.policy === action)), [counted, filter.policy]);
  const count = (state: string) => counted.filter((row) => group(row.state) === state).length;
  const matrix = query.get("view") === "matrix";
  const filtered = filters.some((name) => filter[name]);
  const hidden = useProblem("Cluster");
  const hiddenAddons = useProblem("CAPTAddon");
  if (hidden || !list.synced)
    return (
      <>
        <Heading>{words.clusters}</Heading>
        {hidden ? <DeniedNote kinds={["Cluster"]} /> : <Progress />}
      </>
    );

  return (
    <>
      <Heading>{words.clusters}</Heading>
      <div class="counters" role="group" aria-label={words.status}>
        <button type="button" aria-pressed={!filter.state} onClick={() => setQuery("state", "")}>
          <b>{counted.length}</b> {words.all}
        </button>
        {states
          .filter((state) => state !== "Unknown")
          .map((state) => (
            <button type="button" key={state} class={state} aria-pressed={filter.state === state} onClick={() => setQuery("state", filter.state === state ? "" : state)}>
              <b>{count(state)}</b> {words.state[state]}
            </button>
          ))}
      </div>
      <div class="filters">
        <input type="search" ref={search} value={filter.q} placeholder={words.search} aria-label={words.search} title={words.searchHint} onInput={(e) => setQuery("q", e.currentTarget.value)} />
        {namespaces.length > 1 && (
          <select aria-label={words.namespace} value={filter.ns} onChange={(e) => setQuery("ns", e.currentTarget.value)}>
            <option value="">{words.allNamespaces}</option>
            {namespaces.map((ns) => (
              <option key={ns}>{ns}</option>
            ))}
          </select>
        )}
        {!!decisions.length && (
          <select aria-label={words.policies} value={filter.policy} onChange={(e) => setQuery("policy", e.currentTarget.value)}>
            <option value="">{words.anyPolicy}</option>
            {decisions.map((action) => (
              <option key={action} value={action}>
                {words.policyActions[action]}
              </option>
            ))}
          </select>
        )}
        <div class="choices" role="group" aria-label={words.layout}>
          <button type="button" aria-pressed={!matrix} onClick={() => setQuery("view", "")}>
            {words.list}
          </button>
          <button type="button" aria-pressed={matrix} onClick={() => setQuery("view", "matrix")}>
            {words.matrix}
          </button>
        </div>
      </div>
      {matrix && <DeniedNote kinds={["CAPTAddon"]} />}
      {!list.items.size ? (
        <Empty />
      ) : !rows.length ? (
        <p>
          {words.noMatch}{" "}
          {filtered && (
            <button type="button" onClick={() => filters.forEach((name) => setQuery(name, ""))}>
              {words.clear}
            </button>
          )}
        </p>
      ) : matrix ? (
        !hiddenAddons && <Matrix rows={rows} />
      ) : (
        <>
          <div class="fleet-row fleet-head" aria-hidden="true">
            <span />
            <span>{words.name}</span>
            <span>{words.status}</span>
            <span>{words.version}</span>
            <span>{words.region}</span>
            <span class="number">{words.nodes}</span>
            <span class="number">{words.age}</span>
          </div>
          <Virtual items={rows} height={isNarrow ? 84 : 52} label={words.clusters} render={(row) => <FleetRow row={row} />} />
        </>
      )}
    </>
  );
}

function FleetRow({ row }: { row: Row }) {
  const words = useWords();
  const needs = row.attention?.map((a) => words.attention[a.what] ?? a.what) ?? [];
  // What waits for a user says the same already.
  const policy = row.policy === "Warn" || (row.policy === "Deny" && needs[0] !== words.attention.Policy) ? row.policy : undefined;
  return (
    <a class="fleet-row" href={clusterPath(row.ns, row.name)}>
      <Mark state={row.state} />
      <span class="fleet-name">
        <strong>{row.name}</strong> <span class="quiet">{row.ns}</span>
      </span>
      <span class="fleet-status">
        {row.state === "Ready" ? <span class="quiet">{words.state.Ready}</span> : <StateBadge state={row.state} text={needs[0] ?? words.state[row.state]} />}
        {policy && <PolicyBadge action={policy} />}
        {!!row.drift && <span class="badge Attention">{words.drift(row.drift)}</span>}
        {row.paused && <span class="badge">{words.paused}</span>}
        {row.deleting && <span class="badge">{words.deleting}</span>}
        {row.state !== "Ready" && <span class="quiet clip">{row.message || row.reason}</span>}
      </span>
      <span class="wide">{row.version}</span>
      <span class="wide">{row.region}</span>
      <span class="wide number" title={words.nodes}>
        {row.nodes ? `${row.ready}/${row.nodes}` : "–"}
      </span>
      <span class="number quiet">
        <Age since={row.created} />
      </span>
    </a>
  );
}

function Matrix({ rows }: { rows: Row[] }) {
  const words = useWords();
  const addons = useMemo(() => [...new Set(rows.flatMap((row) => Object.keys(row.addons ?? {})))].sort(), [rows]);
  const columns = { "--columns": addons.length };
  return (
    <div class="scroll matrix" role="region" tabIndex={0} aria-label={words.matrix} style={columns}>
      <div class="matrix-row matrix-head" aria-hidden="true">
        <span>{words.name}</span>
        {addons.map((addon) => (
          <span key={addon}>{addon}</span>
        ))}
      </div>
      <Virtual
        items={rows}
        height={44}
        label={words.matrix}
        render={(row) => (
          <div class="matrix-row">
            <a href={clusterPath(row.ns, row.name)}>
              {row.name} <span class="quiet">{row.ns}</span>
            </a>
            {addons.map((addon) => {
              const badge = row.addons?.[addon];
              return (
                <span key={addon}>
                  {badge ? (
                    <a href={addonPath(row.ns, addon)} title={`${addon}: ${badge.reason ?? ""}`}>
                      <Mark state={badge.state} />
                      <span class="hidden">{addon}</span>
                    </a>
                  ) : (
                    <span class="quiet">–</span>
                  )}
                </span>
              );
            })}
          </div>
        )}
      />
    </div>
  );
}

function Empty() {
  const words = useWords();
  return (
    <div class="empty">
      <h2>{words.noClusters}</h2>
      <p>{words.createHint}</p>
      <pre tabIndex={0}>captctl generate cluster demo | kubectl apply -f -</pre>
    </div>
  );
}
