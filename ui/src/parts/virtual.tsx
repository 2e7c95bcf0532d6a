import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { id } from "../stream";

/** window returns the first and the number of the rows to render. */
export function visible(count: number, height: number, top: number, screen: number, extra = 8): { first: number; last: number } {
  const first = Math.max(0, Math.floor(-top / height) - extra);
  const last = Math.min(count, Math.ceil((screen - top) / height) + extra);
  return { first: Math.min(first, count), last: Math.max(last, Math.min(first, count)) };
}

/** Virtual renders only the rows of a long list that are on the screen. The focus follows its row when the order changes. */
export function Virtual<T extends { ns: string; name: string }>({ items, height, label, render }: { items: T[]; height: number; label: string; render: (item: T) => ComponentChildren }) {
  const ref = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState({ first: 0, last: Math.min(items.length, 30) });
  const update = () => {
    if (!ref.current) return;
    const next = visible(items.length, height, ref.current.getBoundingClientRect().top, innerHeight);
    setRange((range) => (range.first === next.first && range.last === next.last ? range : next));
  };
  useLayoutEffect(update);
  useEffect(() => {
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    return () => {
      removeEventListener("scroll", update);
      removeEventListener("resize", update);
    };
  });
  return (
    <ul class="virtual" role="list" ref={ref} aria-label={label} style={{ height: `${items.length * height}px` }}>
      {items.slice(range.first, range.last).map((item, i) => (
        <li key={id(item)} aria-setsize={items.length} aria-posinset={range.first + i + 1} style={{ top: `${(range.first + i) * height}px`, height: `${height}px` }}>
          {render(item)}
        </li>
      ))}
    </ul>
  );
}
