import { useState } from "preact/hooks";
import { useWords } from "./i18n";
import { Dialog } from "./parts/common";
import { enter, why } from "./session";
import { useStore } from "./store";

/** command returns the command that serves the page at this address again. */
export function command(port: string): string {
  return port ? `captctl ui --port ${port}` : "captctl ui";
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
      {(error || text) && (
        <p class="note" role="alert">
          {error || text}
        </p>
      )}
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

/** Login is the page without a session. */
export function Login() {
  const words = useWords();
  const text = useStore(why);
  return (
    <div class="empty">
      <h1 tabIndex={-1}>{words.loginTitle}</h1>
      <LinkForm text={text} />
    </div>
  );
}

/** SessionEnded asks for a new session. The page stays behind it, with what was typed. */
export function SessionEnded() {
  const words = useWords();
  return (
    <Dialog title={words.sessionEnded}>
      <LinkForm text="" />
      <p class="quiet">{words.resume}</p>
    </Dialog>
  );
}
