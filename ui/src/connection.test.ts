import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Failure } from "./api";
import { busy, inSlot, keepOpen } from "./connection";
import { continued } from "./parts/log";
import { end, key } from "./session";

// A page has one document, whose visibility changes.
const page = new (class extends EventTarget {
  hidden = false;
  show(visible: boolean) {
    this.hidden = !visible;
    this.dispatchEvent(new Event("visibilitychange"));
  }
})();

/** Server counts the streams that are open. */
class Server {
  open = 0;
  attempts = 0;
  send = () => {};
  private streams: { finish: (done: boolean) => void; fail: (error: unknown) => void }[] = [];

  connect = (signal: AbortSignal, opened: () => void): Promise<boolean> => {
    this.attempts++;
    this.open++;
    return new Promise<boolean>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      this.streams.push({ finish: resolve, fail: reject });
      this.send = opened;
      opened();
    }).finally(() => this.open--);
  };
  finish(done: boolean) {
    this.streams.at(-1)!.finish(done);
    return vi.advanceTimersByTimeAsync(0);
  }
  fail(error: unknown) {
    this.streams.at(-1)!.fail(error);
    return vi.advanceTimersByTimeAsync(0);
  }
}

describe("a stream", () => {
  let server: Server;
  let stop = () => {};
  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("document", page);
    vi.stubGlobal("sessionStorage", { setItem: () => {}, removeItem: () => {}, getItem: () => null });
    page.hidden = false;
    key.value = "a";
    server = new Server();
  });
  afterEach(() => {
    stop();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  test("is closed while the tab is hidden, and opened when it is shown", async () => {
    stop = keepOpen({ connect: server.connect });
    expect(server.open).toBe(1);
    page.show(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([server.open, server.attempts]).toEqual([0, 1]);
    page.show(true);
    await vi.advanceTimersByTimeAsync(0);
    expect([server.open, server.attempts]).toEqual([1, 2]);
  });
  test("stays open if the tab is hidden for a moment", async () => {
    stop = keepOpen({ connect: server.connect });
    page.show(false);
    await vi.advanceTimersByTimeAsync(1_000);
    page.show(true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([server.open, server.attempts]).toEqual([1, 1]);
  });
  test("says why the server refuses it for now", async () => {
    const reports: string[] = [];
    let refuse = true;
    const connect = (signal: AbortSignal, opened: () => void) => (refuse ? Promise.reject(new Failure(429, { error: "Too many" })) : server.connect(signal, opened));
    stop = keepOpen({ connect, report: (state, why) => reports.push(`${state} ${busy(why)}`.trim()) });
    await vi.advanceTimersByTimeAsync(1_500);
    expect(reports).toEqual(["connecting", "lost Too many", "lost Too many", "lost Too many"]);
    refuse = false;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(server.open).toBe(1);
    await server.fail(new Error("cut"));
    expect(reports.at(-1)).toBe("lost");
  });
  test("is not opened in a tab that starts hidden", async () => {
    page.hidden = true;
    stop = keepOpen({ connect: server.connect });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.attempts).toBe(0);
    page.show(true);
    expect(server.open).toBe(1);
  });
  test("is opened again after a failure, but not in a hidden tab", async () => {
    const states: string[] = [];
    stop = keepOpen({ connect: server.connect, report: (state) => states.push(state) });
    await server.fail(new TypeError("network"));
    expect([server.open, states]).toEqual([0, ["connecting", "lost"]]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(server.open).toBe(1);
    await server.fail(new TypeError("network"));
    page.show(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([server.open, server.attempts]).toEqual([0, 2]);
  });
  test("is opened again if the server is silent", async () => {
    stop = keepOpen({ connect: server.connect });
    await vi.advanceTimersByTimeAsync(70_000);
    server.send();
    await vi.advanceTimersByTimeAsync(70_000);
    expect([server.open, server.attempts]).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([server.open, server.attempts]).toEqual([1, 2]);
  });
  test("ends when there is nothing more", async () => {
    stop = keepOpen({ connect: server.connect });
    await server.finish(true);
    page.show(false);
    page.show(true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.attempts).toBe(1);
  });
  test("is not opened again if it is refused", async () => {
    const refused: number[] = [];
    stop = keepOpen({ connect: server.connect, refused: (error) => refused.push(error.status) });
    await server.fail(new Failure(403, { error: "no" }));
    await vi.advanceTimersByTimeAsync(60_000);
    expect([refused, server.attempts]).toEqual([[403], 1]);
  });
  test("waits for the next session", async () => {
    stop = keepOpen({ connect: server.connect });
    end("The session has ended");
    await vi.advanceTimersByTimeAsync(60_000);
    expect([server.open, server.attempts]).toEqual([0, 1]);
    key.value = "b";
    expect(server.open).toBe(1);
  });
  test("is closed with its component", async () => {
    keepOpen({ connect: server.connect })();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([server.open, server.attempts]).toEqual([0, 1]);
  });
});

describe("a log that is read again", () => {
  test.each([
    ["has no line twice", "one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\n"],
    ["continues a line", "one\ntw", "one\ntwo\n", "one\ntwo\n"],
    ["keeps what the record has lost", "one\ntwo\nthree\n", "three\nfour\n", "one\ntwo\nthree\nfour\n"],
    ["marks a gap", "one\n", "five\n", "one\n…\nfive\n"],
    ["starts", "", "one\n", "one\n"],
    ["has not changed", "one\n", "one\n", "one\n"],
  ])("%s", (_, known, log, want) => expect(continued(known, log)).toBe(want));
});

describe("the streams of all tabs", () => {
  const held = new Set<string>();
  const locks = {
    request: async <T>(name: string, _: LockOptions, run: (lock: object | null) => Promise<T>): Promise<T> => {
      if (held.has(name)) return run(null);
      held.add(name);
      return run({}).finally(() => held.delete(name));
    },
  };
  let close: (() => void)[] = [];
  const stream = () => inSlot(() => new Promise((done) => close.push(done)), () => "too many");
  beforeEach(() => {
    held.clear();
    close = [];
    vi.stubGlobal("navigator", { locks });
    vi.stubGlobal("location", { protocol: "http:" });
  });
  afterEach(() => vi.unstubAllGlobals());

  test("leave connections for requests", async () => {
    const open = [stream(), stream(), stream(), stream()];
    const refused = await stream().catch((error: Failure) => error);
    expect(busy(refused as Failure)).toBe("too many");
    close[1]!();
    await open[1];
    const next = stream();
    await vi.waitFor(() => expect(close).toHaveLength(5));
    close.forEach((done) => done());
    await Promise.all([...open, next]);
  });
  test("have no limit with HTTP/2", () => {
    vi.stubGlobal("location", { protocol: "https:" });
    for (let i = 0; i < 10; i++) void stream();
    expect(close).toHaveLength(10);
  });
  test("an error of a stream is not the limit", () => expect(inSlot(() => Promise.reject(new Failure(403, { error: "no" })), () => "")).rejects.toThrow("no"));
});
