// What the page runs, once, at its end.

import { start } from "./page";
import "./report.css";

start();
