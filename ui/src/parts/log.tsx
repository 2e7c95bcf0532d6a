import { useEffect, useRef, useState } from "preact/hooks";
import { explain } from "../api";
import { useWords } from "../i18n";
import { read } from "../stream";

/** Log shows the log of a run and follows it until the run ends. */
export function Log({ path, run }: { path: string; run: string }) {
  const words = useWords();
  const [parts, setParts] = useState<string[]>([]);
  const [end, setEnd] = useState<{ error?: string } | null>(null);
  const [follow, setFollow] = useState(true);
  const ref = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const abort = new AbortController();
    setParts([]);
    setEnd(null);
    read(`${path}/log?run=${encodeURIComponent(run)}`, abort.signal, (message) => {
      if (message.name === "log") setParts((parts) => [...parts, message.data]);
      if (message.name === "end") setEnd(message.data);
    }).catch((error: unknown) => {
      if (!abort.signal.aborted) setEnd({ error: explain(error, words.needs) });
    });
    return () => abort.abort();
  }, [path, run]);
  useEffect(() => {
    if (follow && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [parts, follow]);
  const scrolled = () => {
    const pre = ref.current!;
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
          {end?.error ?? (end ? words.logEnded : parts.length ? "" : words.noLog)}
        </span>
      </div>
    </div>
  );
}
