import type { Attribute, Span, State, Step } from "./types";

/** age returns a duration in one unit, such as 5m. */
export function age(from: string | undefined, to: number): string {
  if (!from) return "";
  return duration(to - Date.parse(from));
}

/** duration returns milliseconds in one or two units, such as 1m20s. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 600) return `${Math.floor(s / 60)}m${s % 60 ? `${s % 60}s` : ""}`;
  if (s < 3600 * 2) return `${Math.floor(s / 60)}m`;
  if (s < 3600 * 48) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

/** parseDuration returns the milliseconds of a duration of Go, such as 1m2.5s. */
export function parseDuration(text: string | undefined): number {
  const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, "µs": 0.001, us: 0.001, ns: 0.000001 };
  let total = 0;
  for (const [, value, unit] of (text ?? "").matchAll(/([\d.]+)(ms|µs|us|ns|h|m|s)/g)) total += Number(value) * (units[unit!] ?? 0);
  return total;
}

/** The states from the one that needs a user most to the one that needs nothing. */
export const states: State[] = ["Failed", "Attention", "Waiting", "Unknown", "Ready"];

export const severity = (state: State | undefined): number => {
  const index = states.indexOf(state ?? "");
  return index < 0 ? states.length : index;
};

/** pathText returns the path of an attribute in the syntax of Terraform. */
export function pathText(path: Step[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (typeof step === "object") text += `[${step.removed ?? step.added}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += (text ? "." : "") + step;
  }
  return text;
}

/** sides returns the old and new value of an attribute; words stand for hidden values. */
export function sides(attribute: Attribute, words: { sensitive: string; unknown: string }): { before?: string; after?: string } {
  const show = (value: unknown) => (value === undefined ? undefined : typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value, null, 1));
  const hasBefore = attribute.action !== "create";
  const hasAfter = attribute.action !== "delete";
  if (attribute.sensitive)
    return { before: hasBefore ? words.sensitive : undefined, after: hasAfter ? (attribute.unknown ? words.unknown : words.sensitive) : undefined };
  return {
    before: hasBefore ? (show(attribute.before) ?? "null") : undefined,
    after: attribute.unknown ? words.unknown : hasAfter ? (show(attribute.after) ?? "null") : undefined,
  };
}

/** symbol returns the sign of Terraform for an action. */
export function symbol(action: string, createFirst?: boolean): string {
  switch (action) {
    case "create":
      return "+";
    case "delete":
      return "-";
    case "replace":
      return createFirst ? "+/-" : "-/+";
    case "read":
      return "<=";
    case "forget":
      return ".";
    case "no-op":
      return " ";
    default:
      return "~";
  }
}

/** Episode is a part of a timeline without a long pause. */
export interface Episode {
  from: number;
  to: number;
  spans: Span[];
  /** change is the last known change in it. */
  change?: Span["change"];
}

const pause = 3_600_000;

/** episodes splits a timeline where nothing happened for an hour, and where an upgrade or the deletion begins. */
export function episodes(spans: Span[], now: number): Episode[] {
  const found: Episode[] = [];
  for (const span of spans.filter((span) => !span.gap).sort((a, b) => Date.parse(a.start) - Date.parse(b.start) || Number(begins(b)) - Number(begins(a)))) {
    const from = Date.parse(span.start);
    const to = Math.max(from, span.end ? Date.parse(span.end) : now);
    let last = found.at(-1);
    if (!last || from - last.to >= pause || (begins(span) && span.change !== last.change)) found.push((last = { from, to, spans: [] }));
    last.to = Math.max(last.to, to);
    last.spans.push(span);
    last.change = span.change ?? last.change;
  }
  return found;
}

/** begins reports whether a span is a part of a change that has its own episode. */
const begins = (span: Span): boolean => span.change === "Upgrade" || span.change === "Delete";

/** current returns the index of the episode to show first: one that lasts, else the last known change. */
export function current(all: Episode[]): number {
  const last = all.length - 1;
  if (all[last]?.spans.some((span) => !span.end)) return last;
  const named = all.findLastIndex((episode) => episode.change);
  return named < 0 ? last : named;
}
