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
    found[reason] = { cause: plain(cause), command: plain(command ?? "") };
  }
  return found;
}

/** plain removes links and emphasis from a cell, and keeps code marks. */
function plain(text: string): string {
  return text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\*\*?/g, "")
    .replace(/\\\|/g, "|");
}
