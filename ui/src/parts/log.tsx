import { useEffect, useRef, useState } from "preact/hooks";
import { explain } from "../api";
import { busy, keepOpen } from "../connection";
import { useWords } from "../i18n";
import { read } from "../stream";

/**
 * continued returns what is known of a log after it was read again from its beginning. The
 * record of a long log may have lost lines in the meantime.
 */
export function continued(known: string, log: string): string {
  for (let rest = known; rest; ) {
    if (log.startsWith(rest)) return known + log.slice(rest.length);
    const end = rest.indexOf("\n");
    if (end < 0) break;
    rest = rest.slice(end + 1);
  }
  return known ? `${known}…\n${log}` : log;
}

/** Log shows the log of a run and follows it until the run ends. */
export function Log({ path, run }: { path: string; run: string }) {
  const words = useWords();
  const [parts, setParts] = useState<string[]>([]);
  const [end, setEnd] = useState<{ error?: string } | null>(null);
  const [refusal, setRefusal] = useState("");
  const [follow, setFollow] = useState(true);
  const ref = useRef<HTMLPreElement>(null);
  useEffect(() => {
    let known: string[] = [];
    const show = (parts: string[]) => setParts((known = parts));
    show([]);
    setEnd(null);
    return keepOpen({
      connect: async (signal, heard) => {
        let first = true;
        let ended = false;
        await read(`${path}/log?run=${encodeURIComponent(run)}`, signal, (message) => {
          heard();
          setRefusal("");
          if (message.name === "log") {
            show(first ? [continued(known.join(""), message.data)] : [...known, message.data]);
            first = false;
          }
          if (message.name === "end") {
            ended = true;
            setEnd(message.data);
          }
        });
        return ended;
      },
      report: (_, why) => setRefusal(busy(why)),
      refused: (error) => setEnd({ error: explain(error, words.needs) }),
    });
  }, [path, run]);
  useEffect(() => {
    if (follow && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [parts, follow]);
  const scrolled = () => {
    const pre = ref.current;
    // The log of a page that was left may still scroll.
    if (!pre) return;
    setFollow(pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40);
  };
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
    link.download = run + ".log";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div>
      <pre class="log" ref={ref} tabIndex={0} role="log" aria-label={words.log} aria-live="off" onScroll={scrolled}>
        {parts}
      </pre>
      <div class="row">
        <label>
          <input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} /> {words.follow}
        </label>
        <button type="button" onClick={download} disabled={!parts.length}>
          {words.download}
        </button>
        <span class="quiet" role="status">
          {end?.error ?? (end ? words.logEnded : refusal || (parts.length ? "" : words.noLog))}
        </span>
      </div>
    </div>
  );
}
