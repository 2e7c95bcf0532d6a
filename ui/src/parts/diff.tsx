import { useState } from "preact/hooks";
import { pathText, sides, symbol } from "../format";
import { useWords } from "../i18n";
import type { Attribute, Entry, Plan, Resource } from "../types";

const limit = 100;

function Attributes({ label, list, unchanged, omitted }: { label: string; list: Attribute[]; unchanged?: number; omitted?: number }) {
  const words = useWords();
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={label}>
      <table class="diff">
        <tbody>
          {list.map((attribute, i) => {
            const { before, after } = sides(attribute, words);
            return (
              <tr key={i} class={attribute.action}>
                <td class="sign">{symbol(attribute.action)}</td>
                <th scope="row">{pathText(attribute.path)}</th>
                <td>
                  {before !== undefined && <del>{before}</del>}
                  {before !== undefined && after !== undefined && <span class="arrow"> → </span>}
                  {after !== undefined && <ins>{after}</ins>}
                  {attribute.replaces && <strong class="forces"> {words.forces}</strong>}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {!!omitted && <p class="quiet">{words.omitted(omitted)}</p>}
      {!!unchanged && <p class="quiet">{words.unchanged(unchanged)}</p>}
    </div>
  );
}

function Change({ change, protectedOnes }: { change: Resource; protectedOnes: string[] }) {
  const words = useWords();
  const [open, setOpen] = useState(false);
  return (
    <details class={"change " + change.action} onToggle={(e) => setOpen((e.target as HTMLDetailsElement).open)}>
      <summary>
        <span class="sign">{symbol(change.action, change.createFirst)}</span> <span class="address">{change.address}</span>{" "}
        <span class="quiet">{words.actions[change.action] ?? change.action}</span>
        {protectedOnes.includes(change.address) && <span class="badge Attention">{words.protectedMark}</span>}
        {change.previousAddress && <span class="quiet"> {words.moved(change.previousAddress)}</span>}
        {change.importID && <span class="quiet"> {words.imported(change.importID)}</span>}
      </summary>
      {open && <Attributes label={change.address} list={change.attributes ?? []} unchanged={change.unchanged} omitted={change.omitted} />}
    </details>
  );
}

/** Diff shows the changes of a plan. */
export function Diff({ plan, entries }: { plan: Plan; entries: Entry[] }) {
  const words = useWords();
  const [filter, setFilter] = useState("");
  const [all, setAll] = useState(false);
  const resources: Resource[] = entries.length
    ? entries.flatMap((e) => (e.resource ? [e.resource] : []))
    : (plan.resources ?? []).map((r) => ({ address: r.address, action: r.action }));
  const matches = (r: Resource) => (r.address + " " + r.action + " " + (words.actions[r.action] ?? "")).toLowerCase().includes(filter.toLowerCase());
  const shown = resources.filter(matches);
  const drift = entries.flatMap((e) => (e.drift ? [e.drift] : [])).filter(matches);
  const outputs = entries.flatMap((e) => (e.output ? [e.output] : []));
  const omitted = entries.find((e) => e.omitted)?.omitted ?? plan.omittedChanges ?? 0;
  return (
    <div class="plan">
      {resources.length > 5 && (
        <input type="search" value={filter} placeholder={words.filterPlan} aria-label={words.filterPlan} onInput={(e) => setFilter(e.currentTarget.value)} />
      )}
      {!resources.length && <p class="quiet">{plan.outputsOnly ? words.outputsOnly : words.noChanges}</p>}
      {shown.slice(0, all ? undefined : limit).map((r) => (
        <Change key={r.address + r.action} change={r} protectedOnes={plan.blocked ?? []} />
      ))}
      {!all && shown.length > limit && (
        <button type="button" onClick={() => setAll(true)}>
          {words.showAll(shown.length)}
        </button>
      )}
      {!!omitted && <p class="quiet">{words.omitted(omitted)}</p>}
      {!!drift.length && (
        <>
          <h3>{words.driftFound}</h3>
          {drift.map((r) => (
            <Change key={r.address} change={r} protectedOnes={[]} />
          ))}
        </>
      )}
      {!!outputs.length && (
        <>
          <h3>{words.outputs}</h3>
          {outputs.map((o) => (
            <Change key={o.name} change={{ address: o.name, action: o.action, attributes: o.attributes }} protectedOnes={[]} />
          ))}
        </>
      )}
    </div>
  );
}
