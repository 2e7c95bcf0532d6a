import { headers, key, renew } from "./session";
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
export async function request(path: string, init: RequestInit = {}, again = true): Promise<Response> {
  const used = key.value;
  const response = await fetch("/api/v1/" + path, {
    ...init,
    headers: { ...headers(), ...(init.body ? { "Content-Type": "application/json" } : {}) },
  });
  if (response.ok) return response;
  let problem: Problem = { error: `${response.status} ${response.statusText}` };
  try {
    problem = await response.json();
  } catch {
    // The answer has no text.
  }
  // Another session may have begun in the meantime: a request that was refused is sent once more.
  if (response.status === 401 && (await renew(used, problem.error)) && again) return request(path, init, false);
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

/**
 * send runs an action and shows that it succeeded. Otherwise it returns why it failed; the
 * text is empty if the page asks for a new session.
 */
export async function send(path: string, body: object, done: string, needs: (missing: string, role: string) => string): Promise<string | undefined> {
  try {
    await request(path, { method: "POST", body: JSON.stringify(body) });
    toast.value = { text: done };
    return undefined;
  } catch (error) {
    return error instanceof Failure && error.status === 401 ? "" : explain(error, needs);
  }
}

/** act runs an action and shows the result. */
export async function act(path: string, body: object, done: string, needs: (missing: string, role: string) => string): Promise<void> {
  const error = await send(path, body, done, needs);
  if (error) toast.value = { text: error, bad: true };
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
