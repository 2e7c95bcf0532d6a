import { useWords } from "../i18n";
import { DeniedNote } from "../parts/common";

export function Loading({ title }: { title: string }) {
  const words = useWords();
  return (
    <>
      <h1 tabIndex={-1}>{title}</h1>
      <p class="quiet">{words.loading}</p>
    </>
  );
}

/** Gone stands for an object or a page that does not exist. */
export function Gone({ title, page }: { title: string; page?: boolean }) {
  const words = useWords();
  return (
    <>
      <h1 tabIndex={-1}>{title}</h1>
      <p>{page ? words.missingPage : words.gone}</p>
      {!page && <DeniedNote />}
      <p>
        <a href="/">{words.back}</a>
      </p>
    </>
  );
}
