import { Store } from "./store";

/** Route is a page with the names in its address. */
export type Route =
  | { page: "fleet" | "workspaces" | "addons" | "events" | "missing" }
  | { page: "cluster" | "workspace" | "addon"; ns: string; name: string };

/** parse returns the route of a path. */
export function parse(path: string): Route {
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { page: "missing" };
  }
  const [page, ns, name] = parts;
  if (parts.length === 0) return { page: "fleet" };
  if (parts.length === 1 && (page === "workspaces" || page === "addons" || page === "events")) return { page };
  if (parts.length === 3 && ns && name) {
    if (page === "clusters") return { page: "cluster", ns, name };
    if (page === "workspaces") return { page: "workspace", ns, name };
    if (page === "addons") return { page: "addon", ns, name };
  }
  return { page: "missing" };
}

const path = (page: string, ns: string, name: string) => `/${page}/${encodeURIComponent(ns)}/${encodeURIComponent(name)}`;
export const clusterPath = (ns: string, name: string): string => path("clusters", ns, name);
export const workspacePath = (ns: string, name: string): string => path("workspaces", ns, name);
export const addonPath = (ns: string, name: string): string => path("addons", ns, name);

/** address is the current path and query. */
export const address = new Store(typeof location === "undefined" ? "/" : location.pathname + location.search);

// arriving is set from the opening of a page until the user does something there.
let arriving = false;

/** go opens another page. */
export function go(to: string): void {
  arriving = true;
  history.pushState(null, "", to);
  address.value = to;
  scrollTo(0, 0);
}

/**
 * announce focuses the heading of a page that was opened, so that screen readers read it
 * and the keyboard continues there. The heading appears again when the page is loaded.
 */
export function announce(heading: HTMLElement): void {
  if (arriving) heading.focus({ preventScroll: true });
}

/** setQuery changes a parameter of the address without a new entry in the history. */
export function setQuery(name: string, value: string): void {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(null, "", url.pathname + url.search);
  address.value = url.pathname + url.search;
}

/** install makes links of the page change the view instead of loading the page. */
export function install(): void {
  for (const input of ["keydown", "pointerdown"]) addEventListener(input, () => (arriving = false), { capture: true });
  addEventListener("popstate", () => {
    arriving = true;
    address.value = location.pathname + location.search;
  });
  addEventListener("click", (click) => {
    const link = (click.target as Element).closest?.("a");
    if (!link || link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
    if (click.defaultPrevented || click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    click.preventDefault();
    go(link.pathname + link.search);
  });
}
