// The page asks its own server for the status every second, and shows it.
//
// All texts are put in as text, never as HTML: a name is shown as it is, whatever is in it.
"use strict";

const EVERY = 1000; // milliseconds from one request to the next
const PATIENCE = 5000; // milliseconds within which the server has to answer
const SVG = "http://www.w3.org/2000/svg";
const SIGNS = { advancing: "▶", done: "✓", waiting: "◐", computing: "●", stopped: "■", lost: "✕" };
const LINK_WORDS = { up: "up", waited: "awaited", down: "down", unknown: "not known" };
const CELLS = ["name", "words", "round_trip", "bytes_received", "bytes_sent", "received",
  "unconfirmed", "last_error"];
const CLASSES = ["name", "state", "number", "number", "number", "number", "number", "error"];
const CARDS = ["phase", "rounds", "rate", "disagreement", "running_for", "certificate"];
const PLOT = { left: 56, right: 592, top: 24, bottom: 310 }; // the corners of the line of speed
const TRACE = { width: 300, height: 90 }; // of the picture of a trace, in its own units
const CIRCLE = { x: 240, y: 150, across: 105, down: 112 }; // centre and radii of the graph
const MANY_SITES = 40; // with more than these only this site and its neighbours are drawn
const MANY_LABELS = 24; // with more sites than these only this one has its name
const MANY_EDGES = 600; // with more than these only the links of this site are drawn
const MANY_LINKS = 8; // with more than these, links have no words beside them
const LONGEST_LABEL = 14; // letters of a name in the graph

let drawn = ""; // what the graph shows, to draw it again only if it changes

function find(id) {
  return document.getElementById(id);
}

function show(id, text) {
  const element = find(id);
  if (element.textContent !== text) element.textContent = text;
}

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function showBanner(level, title, detail) {
  find("banner").dataset.level = level;
  show("sign", SIGNS[level] || "○");
  show("title", title);
  show("detail", detail);
  document.title = `${title} – ${find("site").textContent}`;
  find("content").classList.toggle("is_old", level === "lost" || level === "stopped");
}

function showCards(view) {
  for (const id of CARDS) {
    show(id, view[id]);
    find(id).title = view[id];
    find(id).classList.toggle("is_text", !/^[\d.,]/.test(view[id]) || view[id].length > 9);
  }
  show("progress", view.progress);
  show("certificate_name", view.is_expiring ? "Renew certificate" : "Certificate");
  find("certificate_card").classList.toggle("is_expiring", view.is_expiring);
}

// The largest number of the axis: 1, 2 or 5 times a power of ten.
function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}

function showSpeed(rates) {
  const largest = roundedUp(Math.max(...rates, 1));
  const across = (PLOT.right - PLOT.left) / Math.max(rates.length - 1, 1);
  const height = PLOT.bottom - PLOT.top;
  const points = rates.map((rate, number) => [
    (PLOT.left + number * across).toFixed(1),
    (PLOT.bottom - (rate / largest) * height).toFixed(1),
  ]);
  const path = points.length > 1 ? `M${points.map((point) => point.join(" ")).join("L")}` : "";
  find("line").setAttribute("d", path);
  find("area").setAttribute(
    "d", path && `${path}L${PLOT.right} ${PLOT.bottom}L${PLOT.left} ${PLOT.bottom}Z`);
  show("top", largest.toLocaleString("en"));
  show("middle", (largest / 2).toLocaleString("en"));
  const minutes = rates.length >= 120;
  const span = minutes ? `${Math.round(rates.length / 60)} min` : `${rates.length} s`;
  show("span", `last ${span}`);
  show("first", `${span} ago`);
}

// The path of numbers from left to right, the smallest at the bottom.
function pathOf(values) {
  const least = Math.min(...values);
  const height = Math.max(...values) - least || 1;
  const across = TRACE.width / Math.max(values.length - 1, 1);
  const points = values.map((value, number) => [
    (number * across).toFixed(1),
    ((TRACE.height - 4) * (1 - (value - least) / height) + 2).toFixed(1),
  ]);
  return `M${points.map((point) => point.join(" ")).join("L")}`;
}

function makeTrace() {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.append(document.createElement("span"), document.createElement("b"));
  const picture = make("svg", {
    viewBox: `0 0 ${TRACE.width} ${TRACE.height}`, preserveAspectRatio: "none", role: "img",
  });
  picture.append(make("path", { class: "trace" }));
  figure.append(caption, picture, document.createElement("small"));
  return figure;
}

function showTraces(traces) {
  const drawings = find("traces").children;
  while (drawings.length > traces.length) drawings[drawings.length - 1].remove();
  while (drawings.length < traces.length) find("traces").append(makeTrace());
  traces.forEach((trace, number) => {
    const [caption, picture, range] = drawings[number].children;
    caption.firstChild.textContent = caption.title = trace.name;
    caption.lastChild.textContent = trace.newest;
    picture.firstChild.setAttribute("d", pathOf(trace.values));
    picture.setAttribute("aria-label", `Draws of ${trace.name}`);
    const ends = [Math.min(...trace.values), Math.max(...trace.values)];
    range.textContent = ends.map((end) => end.toPrecision(3)).join(" to ");
  });
  show("num_draws", traces.length ? `the last ${traces[0].values.length}` : "none yet");
}

// The place of every site on an ellipse, this site at the top.
function places(sites, own) {
  const found = new Map();
  const first = sites.indexOf(own);
  sites.forEach((site, number) => {
    const angle = (2 * Math.PI * (number - first)) / sites.length - Math.PI / 2;
    found.set(site, {
      x: CIRCLE.x + CIRCLE.across * Math.cos(angle),
      y: CIRCLE.y + CIRCLE.down * Math.sin(angle),
      cosine: Math.cos(angle),
      sine: Math.sin(angle),
    });
  });
  return found;
}

function drawLink(graph, from, to, state, hasWord) {
  graph.append(make("line", { class: `link ${state}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
  if (!hasWord) return [];
  const word = { x: (from.x + 1.35 * to.x) / 2.35, y: (from.y + 1.35 * to.y) / 2.35 + 4 };
  return [make("text", { class: "word", ...word }, LINK_WORDS[state])];
}

// A long name without its middle: names often differ at their ends.
function shortened(name) {
  const letters = [...name];
  const half = LONGEST_LABEL / 2;
  if (letters.length <= LONGEST_LABEL) return name;
  return `${letters.slice(0, half).join("")}…${letters.slice(1 - half).join("")}`;
}

function drawSite(graph, name, place, isOwn, number) {
  const own = isOwn ? " own" : "";
  const radius = isOwn ? 9 : Math.min(7, 250 / number);
  const node = make("circle", { class: `node${own}`, cx: place.x, cy: place.y, r: radius });
  node.append(make("title", {}, name));
  graph.append(node);
  if (!isOwn && number > MANY_LABELS) return;
  const side = Math.abs(place.cosine) < 0.2 ? "middle" : place.cosine > 0 ? "start" : "end";
  const where = {
    class: `label${own}`,
    x: place.x + (side === "middle" ? 0 : 15 * Math.sign(place.cosine)),
    y: place.y + 5 + (side === "middle" ? 21 * Math.sign(place.sine) : 0),
    "text-anchor": side,
  };
  graph.append(make("text", where, shortened(name) + (isOwn ? " (here)" : "")));
}

function showGraph(status) {
  const links = new Map(status.view.neighbours.map((each) => [each.name, each.link]));
  const content = JSON.stringify([status.site, status.sites, status.edges, [...links]]);
  if (content === drawn) return;
  drawn = content;
  const isMany = status.sites.length > MANY_SITES;
  const count = status.sites.length.toLocaleString("en");
  show("shown", isMany ? `this site and its neighbours, of ${count} sites` : "");
  const where = places(isMany ? [status.site, ...links.keys()] : status.sites, status.site);
  const graph = find("graph");
  graph.replaceChildren();
  const words = [];
  const isOwn = (edge) => edge.includes(status.site);
  const known = status.edges.filter((edge) => edge.every((site) => where.has(site)));
  const others = known.filter((edge) => !isOwn(edge));
  for (const [from, to] of others.length > MANY_EDGES ? [] : others) {
    drawLink(graph, where.get(from), where.get(to), "other", false);
  }
  for (const edge of known.filter(isOwn)) {
    const neighbour = edge[0] === status.site ? edge[1] : edge[0];
    const state = links.get(neighbour) || "unknown";
    const ends = [where.get(status.site), where.get(neighbour)];
    words.push(...drawLink(graph, ...ends, state, links.size <= MANY_LINKS));
  }
  for (const [name, place] of where) {
    drawSite(graph, name, place, name === status.site, where.size);
  }
  graph.append(...words);
}

function makeRow() {
  const row = document.createElement("tr");
  for (const name of CLASSES) {
    const cell = row.insertCell();
    cell.className = name;
    cell.append(document.createElement("span"));
  }
  return row;
}

function showNeighbours(neighbours) {
  const rows = find("neighbours").rows;
  while (rows.length > neighbours.length) rows[rows.length - 1].remove();
  while (rows.length < neighbours.length) find("neighbours").append(makeRow());
  neighbours.forEach((neighbour, number) => {
    rows[number].dataset.link = neighbour.link;
    CELLS.forEach((key, place) => {
      const cell = rows[number].cells[place].firstChild;
      const text = neighbour[key] || "–";
      if (cell.textContent !== text) cell.textContent = cell.title = text;
    });
  });
}

function showStatus(status) {
  show("site", status.site);
  show("trial", status.trial);
  show("manifest", (status.manifest || "not known").slice(0, 16));
  show("seen", new Date(1000 * status.time).toLocaleString());
  showBanner(status.view.level, status.view.title, status.view.detail);
  showCards(status.view);
  showSpeed(status.view.rates);
  showTraces(status.view.traces);
  showGraph(status);
  showNeighbours(status.view.neighbours);
}

// The status, or an object with `error` that says why there is none.
async function readStatus() {
  const settings = { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
  try {
    return await (await fetch("/status.json", settings)).json();
  } catch {
    return { title: "This page is no longer up to date", error: "The command `starlings dashboard` "
      + "does not answer; it may have ended. The site may go on. Start the command again." };
  }
}

async function update() {
  try {
    const status = await readStatus();
    if (status.view) showStatus(status);
    else showBanner("lost", status.title || "No status to show", status.error);
  } finally {
    setTimeout(update, EVERY);
  }
}

update();
