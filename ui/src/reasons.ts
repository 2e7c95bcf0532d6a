/** Help is an entry of the troubleshooting page. */
export interface Help {
  cause: string;
  command: string;
  /** section is the part of the page with the entry, or the one that it refers to. */
  section: string;
}

/** troubleshooting returns the address of a section of the documentation. */
export const troubleshooting = (section: string): string => "https://appthrust.github.io/capt/troubleshooting/#" + section;

/**
 * parseReasons returns the entries of the tables of docs/troubleshooting.md by the
 * reason of a condition with which their symptom starts. The first entry of a reason
 * wins.
 */
export function parseReasons(page: string): Record<string, Help> {
  const found: Record<string, Help> = {};
  let section = "";
  for (const line of page.split("\n")) {
    const heading = /^##+ (.*)/.exec(line)?.[1];
    if (heading) section = heading.toLowerCase().replace(/[^\w -]/g, "").replaceAll(" ", "-");
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const [, symptom, cause, command] = cells;
    const reason = /^`([A-Z][A-Za-z]+)`/.exec(symptom ?? "")?.[1] ?? /^`([A-Z][A-Za-z]+):/.exec(symptom ?? "")?.[1];
    if (cells.length !== 5 || !reason || found[reason] || !cause) continue;
    // Of a cell that only refers to another section, the reference is left.
    const refers = (cell = "") => /^(see )?\[[^\]]*\]\(#([^)]*)\)$/.exec(cell)?.[2];
    const other = refers(cause) ?? refers(command);
    found[reason] = { cause: refers(cause) ? "" : plain(cause), command: refers(command) ? "" : plain(command ?? ""), section: other ?? section };
  }
  return found;
}

/** named replaces the names of examples in a help text by that of an object, such as Workspace/a. */
export function named(text: string, object: string): string {
  const [kind, name] = object.split("/");
  if (!name) return text;
  if (kind === "Workspace") return text.replace(/cluster\/demo\b|\b(careful|hello|NAME|demo)\b/g, name);
  return text.replace(/\b(NAME|demo)\b/g, name);
}

/** plain removes links and emphasis from a cell, and keeps code marks. */
function plain(text: string): string {
  return text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\*\*?/g, "")
    .replace(/\\\|/g, "|");
}
