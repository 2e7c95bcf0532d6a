import { stored, useStore } from "../store";
import { en, type Words } from "./en";
import { ja } from "./ja";

const languages: Record<string, Words> = { en, ja };

/** language is en or ja. */
export const language = stored("capt-language", typeof navigator !== "undefined" && navigator.language.startsWith("ja") ? "ja" : "en");

/** currentWords returns the words of the chosen language, outside of components. */
export const currentWords = (): Words => languages[language.value] ?? en;

/** useWords returns the words of the chosen language. */
export function useWords(): Words {
  return languages[useStore(language)] ?? en;
}
