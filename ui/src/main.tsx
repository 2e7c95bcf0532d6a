import { render } from "preact";
import { App } from "./app";
import { install } from "./router";
import { open } from "./session";
import "./style.css";

install();
void open().finally(() => render(<App />, document.getElementById("app")!));
