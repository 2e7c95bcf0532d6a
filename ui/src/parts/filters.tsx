import { useEffect, useMemo, useRef } from "preact/hooks";
import { severity, states } from "../format";
import { useWords } from "../i18n";
import { address, setQuery } from "../router";
import { useStore } from "../store";
import type { PolicyAction, State } from "../types";
import { StateBadge } from "./common";
import { PolicyBadge, policyActions } from "./policies";

/** Listed is what rows of all lists have. */
export interface Listed {
  ns: string;
  name: string;
  state: State;
  policy?: PolicyAction;
}

export interface Filter {
  q: string;
  ns: string;
  state: string;
  policy: string;
}

const names = ["q", "ns", "state", "policy"] as const;

/** select returns the rows that match a filter, those that need a user first. texts returns where the search looks, beside the name. */
export function select<T extends Listed>(rows: Iterable<T>, filter: Filter, texts: (row: T) => (string | undefined)[]): T[] {
  const q = filter.q.toLowerCase();
  return [...rows]
    .filter(
      (row) =>
        (!filter.ns || row.ns === filter.ns) &&
        (!filter.state || group(row.state) === filter.state) &&
        (!filter.policy || row.policy === filter.policy) &&
        (!q || [row.ns, row.name, ...texts(row)].some((text) => text?.toLowerCase().includes(q))),
    )
    .sort((a, b) => severity(a.state) - severity(b.state) || compare(a.ns, b.ns) || compare(a.name, b.name));
}

/** compare orders names, which are ASCII, with numbers by their value: -2 before -10. Collation would take most of the time of a long list. */
export const compare = (a: string, b: string): number => {
  const [x, y] = [byValue(a), byValue(b)];
  return x < y ? -1 : x > y ? 1 : 0;
};

const byValue = (name: string): string => name.replace(/\d+/g, (digits) => digits.padStart(12, "0"));

/** group returns the counter that a state belongs to. */
export const group = (state: State): State => (state === "Unknown" ? "Waiting" : state);

/** useFilter returns the filter in the address. */
export function useFilter(): Filter {
  const query = new URLSearchParams(useStore(address).split("?")[1] ?? "");
  const [q, ns, state, policy] = names.map((name) => query.get(name) ?? "") as [string, string, string, string];
  return useMemo(() => ({ q, ns, state, policy }), [q, ns, state, policy]);
}

/** Counters count the rows of each state, and select one. */
export function Counters({ rows, filter }: { rows: Listed[]; filter: Filter }) {
  const words = useWords();
  const counted = useMemo(() => rows.filter((row) => !filter.ns || row.ns === filter.ns), [rows, filter.ns]);
  return (
    <div class="counters" role="group" aria-label={words.status}>
      <button type="button" aria-pressed={!filter.state} onClick={() => setQuery("state", "")}>
        <b>{counted.length}</b> {words.all}
      </button>
      {states
        .filter((state) => state !== "Unknown")
        .map((state) => (
          <button type="button" key={state} class={state} aria-pressed={filter.state === state} onClick={() => setQuery("state", filter.state === state ? "" : state)}>
            <b>{counted.filter((row) => group(row.state) === state).length}</b> {words.state[state]}
          </button>
        ))}
    </div>
  );
}

/** Search is a search field that the key / focuses. */
export function Search({ filter, label }: { filter: Filter; label: string }) {
  const words = useWords();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if ((event.target as Element).matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return <input type="search" ref={field} value={filter.q} placeholder={label} aria-label={label} aria-keyshortcuts="/" title={words.searchHint} onInput={(e) => setQuery("q", e.currentTarget.value)} />;
}

/** Selections choose a namespace and a result of policies, where there are several. */
export function Selections({ rows, filter }: { rows: Listed[]; filter: Filter }) {
  const words = useWords();
  const namespaces = useMemo(() => [...new Set([...rows.map((row) => row.ns), filter.ns])].filter(Boolean).sort(), [rows, filter.ns]);
  const decisions = useMemo(
    () => policyActions.filter((action) => action === filter.policy || rows.some((row) => row.policy === action && (!filter.ns || row.ns === filter.ns))),
    [rows, filter.ns, filter.policy],
  );
  return (
    <>
      {namespaces.length > (filter.ns ? 0 : 1) && (
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
    </>
  );
}

/** NoMatch says that a filter selects nothing. */
export function NoMatch({ text }: { text: string }) {
  const words = useWords();
  return (
    <p>
      {text}{" "}
      <button type="button" onClick={() => names.forEach((name) => setQuery(name, ""))}>
        {words.clear}
      </button>
    </p>
  );
}

interface Special extends Listed {
  reason?: string;
  message?: string;
  drift?: number;
  paused?: boolean;
  deleting?: boolean;
}

/** RowStatus is the state of a row in words. what is why it waits for a user. */
export function RowStatus({ row, what }: { row: Special; what?: string }) {
  const words = useWords();
  // What waits for a user says the same already.
  const policy = row.policy === "Warn" || (row.policy === "Deny" && what !== "Policy") ? row.policy : undefined;
  const text = what && (words.attention[what] ?? what);
  return (
    <span class="fleet-status">
      {row.state === "Ready" ? <span class="quiet">{words.state.Ready}</span> : <StateBadge state={row.state} text={text ?? words.state[row.state]} />}
      {policy && <PolicyBadge action={policy} />}
      {!!row.drift && what !== "Drift" && <span class="badge Attention">{words.drift(row.drift)}</span>}
      {row.paused && what !== "Paused" && <span class="badge">{words.paused}</span>}
      {row.deleting && <span class="badge">{words.deleting}</span>}
      {row.state !== "Ready" && <span class="quiet cause" lang="en" title={row.message || row.reason}>{row.message || row.reason}</span>}
    </span>
  );
}
