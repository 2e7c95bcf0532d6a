import { Failure } from "./api";
import { key } from "./session";

/** Connection is a stream of the server. */
export interface Connection {
  /**
   * connect reads the stream until it ends, and calls heard with each message. It returns
   * true if there is nothing more to read.
   */
  connect: (signal: AbortSignal, heard: () => void) => Promise<boolean>;
  /** report is called before each attempt and after a failed one, with the last answer of the server, if it was a refusal. */
  report?: (state: "connecting" | "lost", why?: Failure) => void;
  /** refused is called if another attempt would fail too. */
  refused?: (error: Failure) => void;
}

// A hidden tab closes its streams after a moment.
const hiddenDelay = 5_000;
const longestPause = 10_000;
// The server sends a message every 25 seconds. A connection that is lost without notice is
// silent.
const silence = 75_000;

/**
 * keepOpen keeps a stream open while the page is visible and has a session, until the
 * returned function is called. A stream that breaks is opened again, after growing pauses.
 */
export function keepOpen({ connect, report, refused }: Connection): () => void {
  let current: AbortController | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let hidden: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let why: Failure | undefined;
  let done = false;

  const open = async () => {
    clearTimeout(retry);
    if (current || done || document.hidden || !key.value) return;
    const attempt = (current = new AbortController());
    report?.(failures ? "lost" : "connecting", why);
    let silent: ReturnType<typeof setTimeout> | undefined;
    const listen = () => {
      clearTimeout(silent);
      silent = setTimeout(() => attempt.abort(), silence);
    };
    listen();
    try {
      done = await connect(attempt.signal, () => {
        failures = 0;
        why = undefined;
        listen();
      });
    } catch (error) {
      if (current === attempt) why = error instanceof Failure ? error : undefined;
      if (current === attempt && error instanceof Failure && isFinal(error)) {
        done = true;
        refused?.(error);
      }
    } finally {
      clearTimeout(silent);
    }
    if (current !== attempt) return;
    current = undefined;
    if (done || !key.value) return;
    failures++;
    report?.("lost", why);
    retry = setTimeout(open, Math.min(longestPause, 500 * 2 ** failures));
  };
  const close = () => {
    clearTimeout(retry);
    current?.abort();
    current = undefined;
  };
  const visibility = () => {
    clearTimeout(hidden);
    if (document.hidden) {
      hidden = setTimeout(close, hiddenDelay);
      return;
    }
    failures = 0;
    void open();
  };
  // A page whose session has ended continues with the next one.
  const unfollow = key.follow(() => {
    if (!key.value) return close();
    failures = 0;
    void open();
  });
  document.addEventListener("visibilitychange", visibility);
  void open();
  return () => {
    done = true;
    close();
    clearTimeout(hidden);
    unfollow();
    document.removeEventListener("visibilitychange", visibility);
  };
}

// Browsers have six connections to a server without TLS, for all tabs together. Some are for
// other requests than streams.
const slots = 4;

/**
 * inSlot reads a stream if the tabs of this browser have not too many open. A server with
 * TLS has no such limit, because browsers use HTTP/2.
 */
export async function inSlot(run: () => Promise<void>, refusal: () => string): Promise<void> {
  if (location.protocol === "https:" || !navigator.locks) return run();
  for (let i = 0; i < slots; i++) {
    const had = await navigator.locks.request(`capt-stream-${i}`, { ifAvailable: true }, async (lock) => {
      if (lock) await run();
      return !!lock;
    });
    if (had) return;
  }
  throw new Failure(429, { error: refusal() });
}

/** busy returns the text of a refusal because too much is open, or an empty string. */
export function busy(why: Failure | undefined): string {
  return why?.status === 429 ? why.message : "";
}

/** isFinal reports whether an answer stays the same until something else changes. */
function isFinal(error: Failure): boolean {
  return error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 429;
}
