/** Help is an entry of the troubleshooting page. */
export interface Help {
  cause: string;
  command: string;
}

/**
 * parseReasons returns the entries of the tables of docs/troubleshooting.md by the
 * reason of a condition with which their symptom starts. The first entry of a reason
 * wins.
 */
export function parseReasons(page: string): Record<string, Help> {
  const found: Record<string, Help> = {};
  for (const line of page.split("\n")) {
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const [, symptom, cause, command] = cells;
    const reason = /^`([A-Z][A-Za-z]+)`/.exec(symptom ?? "")?.[1] ?? /^`([A-Z][A-Za-z]+):/.exec(symptom ?? "")?.[1];
    if (cells.length !== 5 || !reason || found[reason] || !cause || cause.includes("](#")) continue;
    // A cell that only refers to another section does not help here.
    found[reason] = { cause: plain(cause), command: /^see \[/.test(command ?? "") ? "" : plain(command ?? "") };
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
