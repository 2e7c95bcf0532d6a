import { end, key } from "./session";
import { toast } from "./store";
import type { Problem } from "./types";

/** Failure is an answer of the server that is not a success. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.error);
  }
}

/** request sends a request with the session's key. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch("/api/v1/" + path, {
    ...init,
    headers: { Authorization: "Bearer " + key.value, ...(init.body ? { "Content-Type": "application/json" } : {}) },
  });
  if (response.ok) return response;
  let problem: Problem = { error: `${response.status} ${response.statusText}` };
  try {
    problem = await response.json();
  } catch {
    // The answer has no text.
  }
  if (response.status === 401) end(problem.error);
  throw new Failure(response.status, problem);
}

export async function get<T>(path: string): Promise<T> {
  return (await request(path)).json() as Promise<T>;
}

/** explain returns an error in one sentence, with the role that the user lacks. */
export function explain(error: unknown, needs: (missing: string, role: string) => string): string {
  if (error instanceof Failure && error.problem.missing) return needs(error.problem.missing, error.problem.role ?? "");
  return error instanceof Error ? error.message : String(error);
}

/** act runs an action and shows the result. It returns whether it succeeded. */
export async function act(path: string, body: object, done: string, needs: (missing: string, role: string) => string): Promise<boolean> {
  try {
    await request(path, { method: "POST", body: JSON.stringify(body) });
    toast.value = { text: done };
    return true;
  } catch (error) {
    toast.value = { text: explain(error, needs), bad: true };
    return false;
  }
}

/** lines calls emit with each JSON document of an answer with one per line. */
export async function lines<T>(path: string, signal: AbortSignal, emit: (line: T) => void): Promise<void> {
  const reader = (await request(path, { signal })).body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ?? "";
    const complete = rest.split("\n");
    rest = complete.pop() ?? "";
    for (const line of complete) if (line) emit(JSON.parse(line) as T);
    if (done) return;
  }
}
