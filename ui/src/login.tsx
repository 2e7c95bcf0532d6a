import { useState } from "preact/hooks";
import { useWords } from "./i18n";
import { Dialog } from "./parts/common";
import { enter, exchange, failure, login, why } from "./session";
import { useStore } from "./store";

/** command returns the command that serves the page at this address again. */
export function command(port: string): string {
  return port ? `captctl ui --port ${port}` : "captctl ui";
}

/** providerPath returns the address that logs in at the identity provider and leads back. */
export function providerPath(here: { pathname: string; search: string }): string {
  return "/login/oidc?to=" + encodeURIComponent(here.pathname + here.search);
}

function Note({ text }: { text: string }) {
  return text ? (
    <p class="note" role="alert">
      {text}
    </p>
  ) : null;
}

/** LinkForm says how to get a link, and continues with one that is pasted. */
function LinkForm({ text }: { text: string }) {
  const words = useWords();
  const [link, setLink] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    setError((await enter(link)) ?? words.noLink);
  };
  return (
    <>
      <Note text={error || text} />
      <p>{words.loginText}</p>
      <pre tabIndex={0}>{command(location.port)}</pre>
      <form onSubmit={submit}>
        <label class="field">
          {words.pasteLink}
          <input type="text" autofocus value={link} autocomplete="off" spellcheck={false} placeholder={`${location.origin}/#token=…`} onInput={(e) => setLink(e.currentTarget.value)} />
        </label>
        <button class="primary" type="submit" disabled={!link.trim()}>
          {words.continue}
        </button>
      </form>
    </>
  );
}

/** TokenForm logs in to a cluster. With again, the page stays open behind it. */
function TokenForm({ again }: { again?: boolean }) {
  const words = useWords();
  const { provider } = useStore(login);
  const failed = useStore(failure);
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      setError(await exchange(token.trim()));
    } catch (error) {
      setError(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      <Note text={error || (failed === "refused" ? words.loginRefused : failed ? words.loginFailed : "")} />
      {provider && (
        <p>
          <a class="button primary" href={providerPath(location)} target={again ? "_blank" : "_self"}>
            {words.loginWith(provider)}
          </a>
        </p>
      )}
      <form onSubmit={submit}>
        <label class="field">
          {provider ? words.orToken : words.token}
          <input type="password" autofocus value={token} autocomplete="off" spellcheck={false} onInput={(e) => setToken(e.currentTarget.value)} />
        </label>
        <button class={provider ? "" : "primary"} type="submit" disabled={!token.trim()}>
          {words.loginAction}
        </button>
      </form>
      <p class="quiet">{words.tokenHelp}</p>
      <pre tabIndex={0}>kubectl create token NAME -n NAMESPACE</pre>
    </>
  );
}

/** Login is the page without a session. */
export function Login() {
  const words = useWords();
  const text = useStore(why);
  const inCluster = useStore(login).token;
  return (
    <div class="empty">
      <h1 tabIndex={-1}>{inCluster ? words.loginAction : words.loginTitle}</h1>
      {inCluster ? <TokenForm /> : <LinkForm text={text} />}
    </div>
  );
}

/** SessionEnded asks for a new session. The page stays behind it, with what was typed. */
export function SessionEnded() {
  const words = useWords();
  const inCluster = useStore(login).token;
  return (
    <Dialog title={words.sessionEnded}>
      {inCluster ? <TokenForm again /> : <LinkForm text="" />}
      <p class="quiet">{inCluster ? words.resumeLogin : words.resume}</p>
    </Dialog>
  );
}
