import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { current, duration, episodes, parseDuration, pathText, sides, symbol } from "./format";
import { en } from "./i18n/en";
import { ja } from "./i18n/ja";
import { merge } from "./pages/events";
import { texts } from "./pages/fleet";
import { problemText } from "./parts/common";
import { select, type Filter } from "./parts/filters";
import { flatten } from "./parts/tree";
import { visible } from "./parts/virtual";
import { named, parseReasons } from "./reasons";
import { clusterPath, parse } from "./router";
import { Parser, reduce, type Keyed } from "./stream";
import type { Event, Row, Span } from "./types";

const row = (name: string, more: Partial<Row> = {}): Row => ({ ns: "a", name, state: "Ready", created: "2026-01-01T00:00:00Z", ready: 0, nodes: 0, ...more });

describe("router", () => {
  test.each([
    ["/", { page: "fleet" }],
    ["/addons", { page: "addons" }],
    ["/workspaces", { page: "workspaces" }],
    ["/clusters/a/b", { page: "cluster", ns: "a", name: "b" }],
    ["/workspaces/a/b%2Fc", { page: "workspace", ns: "a", name: "b/c" }],
    ["/clusters/a", { page: "missing" }],
    ["/clusters/a/b/c", { page: "missing" }],
    ["/clusters/a/%E0", { page: "missing" }],
  ])("%s", (path, want) => expect(parse(path)).toEqual(want));
  test("paths and routes fit", () => expect(parse(clusterPath("a b", "c/d"))).toEqual({ page: "cluster", ns: "a b", name: "c/d" }));
});

describe("stream", () => {
  test("messages are split at any byte", () => {
    const text = 'event: rows\ndata: {"rows":[]}\n\nevent: ping\ndata: null\n\nevent: synced\ndata: null\n\n';
    for (let i = 0; i <= text.length; i++) {
      const parser = new Parser();
      expect([...parser.push(text.slice(0, i)), ...parser.push(text.slice(i))]).toEqual([
        { name: "rows", data: { rows: [] } },
        { name: "ping", data: null },
        { name: "synced", data: null },
      ]);
    }
  });
  test("a snapshot, changes and a new snapshot", () => {
    let list: Keyed<Row> = { items: new Map(), synced: false };
    const send = (name: string, data: unknown) => (list = reduce(list, { name, data }, "rows"));
    send("rows", { rows: [row("x"), row("y")] });
    send("synced", null);
    send("rows", { rows: [row("x", { state: "Failed" })], removed: ["a/y"] });
    expect([...list.items.values()]).toEqual([row("x", { state: "Failed" })]);
    expect(list.synced).toBe(true);
    send("reset", null);
    expect(list).toEqual({ items: new Map(), synced: false });
    const before = list;
    send("other", {});
    expect(list).toBe(before);
  });
});

describe("fleet", () => {
  const rows = [row("ready"), row("bad", { state: "Failed" }), row("new", { state: "Unknown", region: "eu-west-1" }), row("b", { ns: "b", state: "Attention", policy: "Deny" })];
  const names = (filter: Partial<Filter>) => select(rows, { q: "", ns: "", state: "", policy: "", ...filter }, texts).map((r) => r.name);
  test("those that need a user come first", () => expect(names({})).toEqual(["bad", "b", "new", "ready"]));
  test("numbers are ordered by their value", () => {
    const pool = ["pool-10", "pool-2", "pool"].map((name) => row(name));
    expect(select(pool, { q: "", ns: "", state: "", policy: "" }, texts).map((r) => r.name)).toEqual(["pool", "pool-2", "pool-10"]);
  });
  test("search", () => expect(names({ q: "WEST" })).toEqual(["new"]));
  test("namespace", () => expect(names({ ns: "b" })).toEqual(["b"]));
  test("result of policies", () => expect([names({ policy: "Deny" }), names({ policy: "Warn" })]).toEqual([["b"], []]));
  test("unknown counts as in progress", () => expect(names({ state: "Waiting" })).toEqual(["new"]));
});

test("only visible rows are rendered", () => {
  expect(visible(1000, 50, 100, 800)).toEqual({ first: 0, last: 22 });
  expect(visible(1000, 50, -10_000, 800)).toEqual({ first: 192, last: 224 });
  expect(visible(3, 50, -10_000, 800)).toEqual({ first: 3, last: 3 });
});

test("a tree shows open nodes", () => {
  const tree = { kind: "Cluster", name: "a", children: [{ kind: "X", name: "b", children: [{ kind: "Y", name: "c" }] }, { kind: "Z" }] };
  expect(flatten(tree, new Set()).map((l) => [l.node.kind, l.level, l.open])).toEqual([
    ["Cluster", 1, true],
    ["X", 2, true],
    ["Y", 3, undefined],
    ["Z", 2, undefined],
  ]);
  const x = flatten(tree, new Set())[1]!.id;
  expect(flatten(tree, new Set([x])).map((l) => l.node.kind)).toEqual(["Cluster", "X", "Z"]);
});

test("an event that happened again moves to the top", () => {
  const event = (id: string, count: number): Event => ({ id, ns: "a", kind: "K", name: "n", reason: "R", last: "", count });
  expect(merge([event("1", 1), event("2", 1)], [event("2", 2)])).toEqual([event("2", 2), event("1", 1)]);
  const at = (id: string, last: string): Event => ({ ...event(id, 1), last });
  expect(merge([at("3", "2026-01-03"), at("1", "2026-01-01")], [at("2", "2026-01-02")]).map((e) => e.id)).toEqual(["3", "2", "1"]);
});

describe("format", () => {
  test.each([[5_000, "5s"], [80_000, "1m20s"], [120_000, "2m"], [3_599_000, "59m"], [10_000_000, "2h"], [9e8, "10d"]])("%d", (ms, want) => expect(duration(ms)).toBe(want));
  test("durations of Go", () => {
    expect(parseDuration("1h2m3.5s")).toBe(3_723_500);
    expect(parseDuration("250ms")).toBe(250);
    expect(parseDuration(undefined)).toBe(0);
  });
  test("paths", () => {
    expect(pathText(["tags", "Name"])).toBe("tags.Name");
    expect(pathText(["rule", 0, "x/y"])).toBe('rule[0]["x/y"]');
    expect(pathText(["list", { removed: 2 }])).toBe("list[2]");
  });
  test("values", () => {
    const words = { sensitive: "S", unknown: "U" };
    expect(sides({ path: [], action: "update", before: "a", after: 1 }, words)).toEqual({ before: '"a"', after: "1" });
    expect(sides({ path: [], action: "create", unknown: true }, words)).toEqual({ before: undefined, after: "U" });
    expect(sides({ path: [], action: "update", sensitive: true }, words)).toEqual({ before: "S", after: "S" });
    expect(sides({ path: [], action: "delete", before: null }, words)).toEqual({ before: "null", after: undefined });
  });
  test("signs", () => expect(["create", "update", "delete", "replace"].map((a) => symbol(a))).toEqual(["+", "~", "-", "-/+"]));
  test("a timeline is split at pauses", () => {
    const span = (start: string, end?: string): Span => ({ lane: "l", label: "", state: "Ready", start, end });
    const found = episodes([span("2026-01-02T00:00:00Z"), span("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"), span("2026-01-01T00:30:00Z", "2026-01-01T00:40:00Z")], Date.parse("2026-01-02T00:01:00Z"));
    expect(found.map((e) => e.spans.length)).toEqual([2, 1]);
    expect(found[1]!.to).toBe(Date.parse("2026-01-02T00:01:00Z"));
  });
  test("an upgrade and the deletion have their own part of a timeline", () => {
    const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
    const span = (start: number, end?: number, change?: Span["change"]): Span => ({ lane: "l", label: "", state: "Ready", start: at(start), end: end === undefined ? undefined : at(end), change });
    const all = [span(0, 10, "Create"), span(2, 5), span(20, 30), span(20, 40, "Upgrade"), span(50, undefined, "Delete"), span(51, 52, "Delete")];
    const found = episodes(all, Date.UTC(2026, 0, 1, 1));
    expect(found.map((e) => [e.change, e.spans.length])).toEqual([["Create", 2], ["Upgrade", 2], ["Delete", 2]]);
    expect(current(found)).toBe(2);
    expect(current(episodes([span(0, 10, "Create"), span(300, 310)], 0))).toBe(0);
    expect(current(episodes([span(0, 10), span(300, 310)], 0))).toBe(1);
  });
});

describe("words", () => {
  const shape = (value: unknown): unknown => (typeof value === "object" && value ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, shape(v)])) : typeof value);
  test("both languages have the same words", () => expect(shape(ja)).toEqual(shape(en)));
});

describe("kinds that are not shown", () => {
  test("a missing permission names the role", () => {
    const text = problemText({ kind: "CAPTAddon", missing: "list captaddons.addons.cluster.x-k8s.io", role: "capt-viewer" }, en);
    expect(text).toContain("You lack the permission to list captaddons.addons.cluster.x-k8s.io. The role capt-viewer has it.");
    expect(text).toContain(en.askForIt);
  });
  test("a kind that is not installed", () => expect(problemText({ kind: "CAPTAddon", absent: true }, en)).toBe("CAPTAddon is not installed in this management cluster."));
  test("an error", () => expect(problemText({ kind: "CAPTAddon", error: "refused" }, ja)).toContain("refused"));
});

test("the documentation explains common reasons", () => {
  const text = readFileSync(new URL("../../docs/troubleshooting.md", import.meta.url), "utf8");
  const reasons = parseReasons(text);
  for (const reason of ["WaitingForApproval", "RunFailed", "ProtectedResource", "LockHeld", "DriftDetected", "WorkspaceFailed", "ApplyFailed"]) {
    expect(reasons[reason]?.cause, reason).toBeTruthy();
  }
  expect(reasons.WaitingForApproval?.command).toContain("captctl approve");
  expect(named(reasons.WaitingForApproval!.command, "Workspace/net")).toContain("captctl approve net");
  expect(named("captctl describe cluster demo", "CAPTCluster/prod")).toBe("captctl describe cluster prod");
  expect(Object.values(reasons).some((help) => help.command.startsWith("see "))).toBe(false);
  expect([reasons.WaitingForApproval?.section, reasons.WorkspaceFailed?.section, reasons.ReleaseStalled?.section]).toEqual(["workspaces", "workspaces", "failed-release"]);
  const sections = [...text.matchAll(/^##+ (.*)$/gm)].map((m) => m[1]!.toLowerCase().replaceAll(" ", "-"));
  for (const [reason, help] of Object.entries(reasons)) expect(sections, reason).toContain(help.section);
});
