import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { request, send } from "./api";
import { command, providerPath } from "./login";
import { end, enter, exchange, headers, key, login, logout, parseLink, why } from "./session";

const here = { origin: "http://127.0.0.1:8082", pathname: "/workspaces/a/net", search: "?q=x" };

describe("a pasted link", () => {
  test("of this server", () => expect(parseLink(" http://127.0.0.1:8082/#token=ABC \n", here)).toEqual({ token: "ABC" }));
  test("of captctl at another port opens the same page there", () =>
    expect(parseLink("http://127.0.0.1:9000/#token=ABC", here)).toEqual({ token: "ABC", elsewhere: "http://127.0.0.1:9000/workspaces/a/net?q=x#token=ABC" }));
  test.each(["", "ABC", "http://127.0.0.1:8082/", "https://evil.example/#token=ABC", "http://evil.example/#token=ABC", "javascript:alert(1)#token=ABC"])("%s is none", (text) =>
    expect(parseLink(text, here)).toBeUndefined(),
  );
  test("the command uses the port of the page", () => expect([command("8082"), command("")]).toEqual(["captctl ui --port 8082", "captctl ui"]));
});

test("the identity provider leads back to the page", () => expect(providerPath(here)).toBe("/login/oidc?to=%2Fworkspaces%2Fa%2Fnet%3Fq%3Dx"));

describe("a session that has ended", () => {
  const answers: Response[] = [];
  const stored = new Map<string, string>();
  const reload = vi.fn();
  beforeEach(() => {
    stored.clear();
    reload.mockClear();
    answers.length = 0;
    vi.stubGlobal("location", { ...here, reload });
    vi.stubGlobal("sessionStorage", { setItem: (k: string, v: string) => stored.set(k, v), removeItem: (k: string) => stored.delete(k), getItem: (k: string) => stored.get(k) ?? null });
    vi.stubGlobal("fetch", async () => answers.shift());
    key.value = "old";
    login.value = {};
  });
  afterEach(() => vi.unstubAllGlobals());
  const answer = (status: number, body: object) => answers.push(new Response(JSON.stringify(body), { status }));

  test("is forgotten, and says why", async () => {
    answer(401, { error: "The session has ended: open a new link of captctl ui." });
    await expect(request("stream")).rejects.toThrow("The session has ended");
    expect([key.value, why.value]).toEqual(["", "The session has ended: open a new link of captctl ui."]);
  });
  test("does not end the next one", async () => {
    vi.stubGlobal("fetch", async () => {
      key.value = "new";
      return new Response("{}", { status: 401 });
    });
    await expect(request("stream", {}, false)).rejects.toThrow();
    expect(key.value).toBe("new");
  });
  test("keeps a dialog open without an error of its own", async () => {
    answer(401, { error: "ended" });
    expect(await send("workspaces/a/net/approve", {}, "done", () => "")).toBe("");
    answer(409, { error: "another plan" });
    expect(await send("workspaces/a/net/approve", {}, "done", () => "")).toBe("another plan");
    answer(200, {});
    expect(await send("workspaces/a/net/approve", {}, "done", () => "")).toBeUndefined();
  });
  test("in a cluster, the key is no secret and is not stored", async () => {
    end("");
    login.value = { token: true };
    answer(401, { error: "not accepted" });
    expect(await exchange("wrong")).toBe("not accepted");
    answer(200, { token: true, user: "anna", key: "csrf" });
    expect(await exchange("right")).toBe("");
    expect([key.value, stored.size, headers()]).toEqual(["csrf", 0, { "X-Capt-Csrf": "csrf" }]);
    answer(200, { token: true });
    await logout();
    expect(key.value).toBe("");
    expect(reload).toHaveBeenCalledOnce();
  });
  describe("in a cluster", () => {
    beforeEach(async () => {
      end("");
      login.value = { token: true };
      answer(200, { token: true, user: "anna", key: "first" });
      await exchange("token");
    });
    test("continues with the session of another tab", async () => {
      answer(401, { error: "ended" });
      answer(200, { token: true, user: "anna", key: "second" });
      answer(200, { done: true });
      expect(await (await request("stream")).json()).toEqual({ done: true });
      expect([key.value, reload.mock.calls.length]).toEqual(["second", 0]);
    });
    test("asks once, and ends", async () => {
      answer(401, { error: "ended" });
      answer(200, { token: true });
      await expect(request("stream")).rejects.toThrow("ended");
      expect([key.value, why.value, answers.length]).toEqual(["", "ended", 0]);
    });
    test("does not show the page of one user to another", async () => {
      answer(200, { token: true, user: "ben", key: "bens" });
      await exchange("token");
      expect(reload).toHaveBeenCalledOnce();
      expect(key.value).toBe("first");
    });
    test("follows logins and logouts in other tabs", async () => {
      const tab = new BroadcastChannel("capt-session");
      tab.postMessage({ token: true, user: "anna", key: "third" });
      await vi.waitFor(() => expect(key.value).toBe("third"));
      tab.postMessage({ token: true, user: "ben", key: "bens" });
      await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
      tab.postMessage("end");
      await vi.waitFor(() => expect(reload).toHaveBeenCalledTimes(2));
      expect(key.value).toBe("");
      tab.close();
    });
  });
  test("continues with a pasted link", async () => {
    end("ended");
    answer(401, { error: "The link was used before or has expired" });
    expect(await enter("http://127.0.0.1:8082/#token=USED")).toBe("The link was used before or has expired");
    expect(await enter("nonsense")).toBeUndefined();
    answer(200, { key: "new" });
    expect(await enter("http://127.0.0.1:8082/#token=ABC")).toBe("");
    expect([key.value, why.value, stored.get("capt-session")]).toEqual(["new", "", "new"]);
  });
});
