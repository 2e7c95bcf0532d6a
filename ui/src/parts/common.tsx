import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import reasons from "virtual:reasons";
import { age } from "../format";
import { language, useWords } from "../i18n";
import type { Words } from "../i18n/en";
import { named, troubleshooting } from "../reasons";
import { announce } from "../router";
import { now, toast, useStore } from "../store";
import { session } from "../stream";
import type { Condition, Denied, State } from "../types";

const marks: Record<string, string> = { Ready: "✓", Waiting: "…", Attention: "!", Failed: "✗", Unknown: "?" };

/** Mark is the sign of a state, with its name for screen readers. */
export function Mark({ state }: { state?: State }) {
  const words = useWords();
  if (!state) return <span class="mark" aria-hidden="true" />;
  return (
    <span class={"mark " + state}>
      <span aria-hidden="true">{marks[state]}</span>
      <span class="hidden">{words.state[state]}</span>
    </span>
  );
}

/** StateBadge is a state in words. */
export function StateBadge({ state, text }: { state: State; text?: string }) {
  const words = useWords();
  return (
    <span class={"badge " + state}>
      <span aria-hidden="true">{marks[state]} </span>
      {text ?? words.state[state]}
    </span>
  );
}

/** Age is how long ago something was. */
export function Age({ since, suffix }: { since?: string; suffix?: boolean }) {
  const words = useWords();
  const time = useStore(now);
  if (!since) return null;
  const text = age(since, time);
  return (
    <time dateTime={since} title={new Date(since).toLocaleString(language.value)}>
      {suffix ? words.ago(text) : text}
    </time>
  );
}

/** Heading is the title of a page. */
export function Heading({ children }: { children: ComponentChildren }) {
  const ref = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => announce(ref.current!), []);
  return (
    <h1 ref={ref} tabIndex={-1}>
      {children}
    </h1>
  );
}

/** Section is a part of a page with a heading. */
export function Section({ title, extra, children, class: name }: { title: string; extra?: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <section class={"panel " + (name ?? "")} aria-label={title}>
      <div class="panel-head">
        <h2>{title}</h2>
        {extra}
      </div>
      {children}
    </section>
  );
}

/** Fact is a label with its value. */
export type Fact = [label: string, value: ComponentChildren];

/** Facts lists facts, except for those without a value. */
export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value)
        .map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** problemText says why a kind is not shown, and what to do. */
export function problemText(problem: Denied, words: Words): string {
  if (problem.absent) return words.absent(problem.kind);
  if (problem.error) return words.cannotList(problem.kind, problem.error);
  return `${words.deniedPanel(problem.kind)} ${words.needs(problem.missing ?? "", problem.role ?? "")} ${words.askForIt}`;
}

/** useProblem returns why a kind is not shown, or undefined if it is. */
export function useProblem(kind: string): Denied | undefined {
  return useStore(session)?.denied?.find((problem) => problem.kind === kind);
}

/**
 * DeniedNote says why kinds are not shown. Without kinds it lists all of them, except for
 * those that are not installed and the ones of other panels.
 */
export function DeniedNote({ kinds, except }: { kinds?: string[]; except?: string[] }) {
  const words = useWords();
  const denied = (useStore(session)?.denied ?? []).filter((d) => (kinds ? kinds.includes(d.kind) : !d.absent && !except?.includes(d.kind)));
  if (!denied.length) return null;
  return (
    <ul class="note" role="list">
      {denied.map((d) => (
        <li key={d.kind}>{problemText(d, words)}</li>
      ))}
    </ul>
  );
}

/** Progress stands for what is not loaded yet. */
export function Progress() {
  const words = useWords();
  const loading = useStore(session)?.loading;
  const text = loading ? words.loadingKinds(loading.done, loading.total) : words.loading;
  return (
    <div class="progress">
      <p class="quiet" role="status">
        {text}
      </p>
      {loading && <Meter value={loading.done} max={loading.total} label={text} />}
    </div>
  );
}

/** Command shows commands, with a button that copies them. */
export function Command({ text }: { text: string }) {
  const words = useWords();
  const copy = () => navigator.clipboard.writeText(text).then(() => (toast.value = { text: words.copied }));
  return (
    <div class="with-copy">
      <pre tabIndex={0}>{text}</pre>
      {navigator.clipboard && <Button onClick={copy}>{words.copy}</Button>}
    </div>
  );
}

/** Code shows text with its code marks as code. */
export function Code({ text }: { text: string }) {
  return <>{text.split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
}

/** Conditions lists conditions with cause and next step. */
export function Conditions({ conditions, subject }: { conditions: Condition[]; subject?: string }) {
  const words = useWords();
  if (!conditions.length) return <p class="quiet">{words.noProblems}</p>;
  return (
    <ul class="conditions">
      {conditions.map((c) => {
        const help = reasons[c.reason];
        return (
          <li key={c.object + c.type}>
            <div>
              <Mark state={c.state} /> <strong>{c.reason}</strong>{" "}
              <span class="quiet">
                {c.object !== subject && <>{c.object} </>}
                {c.type} <Age since={c.since} />
              </span>
            </div>
            {c.message && <p class="message" lang="en">{c.message}</p>}
            {help && (
              <dl class="help">
                {help.cause && (
                  <>
                    <dt>{words.cause}</dt>
                    <dd>
                      <Code text={named(help.cause, c.object)} />
                    </dd>
                  </>
                )}
                {help.command && (
                  <>
                    <dt>{words.next}</dt>
                    <dd>
                      <Code text={named(help.command, c.object)} />
                    </dd>
                  </>
                )}
                <dt>{words.more}</dt>
                <dd>
                  <a href={troubleshooting(help.section)} target="_blank" rel="noreferrer">
                    {words.troubleshooting}
                  </a>
                </dd>
              </dl>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Dialog is a modal question. Without onClose it stays until it is answered. */
export function Dialog({ title, onClose, children }: { title: string; onClose?: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    onClose?.();
  };
  // Browsers close a dialog that refuses Escape twice.
  const closed = () => {
    if (!onClose && ref.current?.isConnected) ref.current.showModal();
    else onClose?.();
  };
  return (
    <dialog ref={ref} aria-labelledby={id} onCancel={cancel} onClose={closed}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/**
 * Confirm is a question about an action. It stays open if the action fails, with what was
 * typed. run returns why it failed, or undefined if it succeeded.
 */
export function Confirm(props: {
  title: string;
  action: string;
  kind: "primary" | "danger";
  disabled?: boolean;
  run: () => Promise<string | undefined>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const words = useWords();
  const [error, setError] = useState("");
  const run = async () => {
    setError("");
    const failed = await props.run();
    if (failed === undefined) props.onClose();
    else setError(failed);
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      {props.children}
      {error && (
        <p class="note" role="alert">
          {error}
        </p>
      )}
      <div class="row">
        <Button kind={props.kind} disabled={props.disabled} onClick={run}>
          {props.action}
        </Button>
        <Button onClick={props.onClose}>{words.cancel}</Button>
      </div>
    </Dialog>
  );
}

/** Button runs an action, and cannot be pressed while that runs. */
export function Button(props: { onClick: () => void | Promise<unknown>; children: ComponentChildren; kind?: string; disabled?: boolean; title?: string }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    setBusy(true);
    try {
      await props.onClick();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={props.kind ?? ""} disabled={props.disabled || busy} title={props.title} onClick={press}>
      {props.children}
    </button>
  );
}

/** Meter shows a part of a whole. */
export function Meter({ value, max, label, state }: { value: number; max: number; label: string; state?: State }) {
  return (
    <div class={"meter " + (state ?? "")} role="progressbar" aria-label={label} aria-valuenow={value} aria-valuemin={0} aria-valuemax={max || 1}>
      <div style={{ width: `${max ? (100 * value) / max : 0}%` }} />
    </div>
  );
}
