import { useEffect, useRef, useState } from "preact/hooks";
import { useWords } from "../i18n";
import { go, addonPath, workspacePath } from "../router";
import type { Node } from "../types";
import { Age, Mark, Meter } from "./common";

interface Line {
  id: string;
  node: Node;
  level: number;
  open?: boolean;
  position: number;
  siblings: number;
}

/** flatten returns the visible lines of a tree. */
export function flatten(node: Node, closed: Set<string>, path = "", level = 1, position = 1, siblings = 1): Line[] {
  const id = `${path}/${node.kind}:${node.name ?? ""}:${node.name ? "" : position}`;
  const children = node.children ?? [];
  const open = children.length ? !closed.has(id) : undefined;
  const lines: Line[] = [{ id, node, level, open, position, siblings }];
  if (open) children.forEach((child, i) => lines.push(...flatten(child, closed, id, level + 1, i + 1, children.length)));
  return lines;
}

/** linkOf returns the page of a node, if it has one. */
export function linkOf(node: Node, ns: string): string | undefined {
  if (!node.name) return undefined;
  if (node.kind === "Workspace") return workspacePath(ns, node.name);
  if (node.kind === "CAPTAddon") return addonPath(ns, node.name);
  return undefined;
}

/** Tree shows the objects of a cluster. Arrow keys move, Enter opens a page. */
export function Tree({ root, ns }: { root: Node; ns: string }) {
  const words = useWords();
  const [closed, setClosed] = useState(new Set<string>());
  const [focus, setFocus] = useState("");
  const ref = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  const lines = flatten(root, closed);
  const current = Math.max(0, lines.findIndex((line) => line.id === focus));
  useEffect(() => {
    if (moved.current) ref.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
    moved.current = false;
  }, [focus]);

  const toggle = (id: string) => {
    const next = new Set(closed);
    if (!next.delete(id)) next.add(id);
    setClosed(next);
  };
  const move = (index: number) => {
    const line = lines[index];
    if (!line) return;
    moved.current = true;
    setFocus(line.id);
  };
  const press = (event: KeyboardEvent) => {
    const line = lines[current]!;
    const parent = lines.slice(0, current).findLastIndex((l) => l.level < line.level);
    const to = linkOf(line.node, ns);
    switch (event.key) {
      case "ArrowDown":
        move(current + 1);
        break;
      case "ArrowUp":
        move(current - 1);
        break;
      case "Home":
        move(0);
        break;
      case "End":
        move(lines.length - 1);
        break;
      case "ArrowRight":
        if (line.open === false) toggle(line.id);
        else if (line.open) move(current + 1);
        break;
      case "ArrowLeft":
        if (line.open) toggle(line.id);
        else move(parent);
        break;
      case "Enter":
        if (to) go(to);
        else if (line.open !== undefined) toggle(line.id);
        break;
      default:
        return;
    }
    event.preventDefault();
  };

  return (
    <div class="tree" role="tree" aria-label={words.tree} ref={ref} onKeyDown={press}>
      {lines.map((line, i) => {
        const to = linkOf(line.node, ns);
        const title = line.node.name ? `${line.node.kind}/${line.node.name}` : line.node.kind;
        return (
          <div
            key={line.id}
            role="treeitem"
            class="tree-line"
            style={{ "--level": line.level - 1 }}
            aria-level={line.level}
            aria-posinset={line.position}
            aria-setsize={line.siblings}
            aria-expanded={line.open}
            tabIndex={i === current ? 0 : -1}
            onFocus={() => setFocus(line.id)}
          >
            <span class={"twist" + (line.open === undefined ? "" : line.open ? " open" : " closed")} aria-hidden="true" onClick={() => line.open !== undefined && toggle(line.id)} />
            <Mark state={line.node.state} />
            <span class="tree-text">
              {to ? (
                <a href={to} tabIndex={-1}>
                  {title}
                </a>
              ) : (
                <span class="tree-name">{title}</span>
              )}{" "}
              {line.node.state && line.node.state !== "Ready" && line.node.reason && <span class="reason">{line.node.reason}</span>}{" "}
              {line.node.state && <span class="quiet"><Age since={line.node.since} /></span>}
              {line.node.message && <span class="tree-message" lang="en">{line.node.message}</span>}
              {line.node.progress && line.node.progress.total > 0 && (
                <span class="tree-progress">
                  <Meter value={line.node.progress.done} max={line.node.progress.total} label={title} />
                  <span class="quiet">
                    {words.progress(line.node.progress.done, line.node.progress.total)} {line.node.progress.current}
                  </span>
                </span>
              )}
            </span>
          </div>
        );
      })}
    </div>
  );
}
