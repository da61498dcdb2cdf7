"use strict";
// Keeps the page as the agent sees it. All HTML comes from the agent, escaped there; here it is only put in place, piece
// by piece, so that focus, folds and a reader's place stay.

const SILENCE_MS = 40000; // the agent says something at least every 16 s
const AGAIN_MS = 3000;
const main = document.getElementById("main");
const live = document.getElementById("live");
const said = document.getElementById("said");
let source = null;
let silence = 0;
let lostAt = null;
let words = "";

function connect() {
  if (source !== null) source.close();
  source = new EventSource("/summary?view=page");
  source.addEventListener("page", (event) => {
    show(JSON.parse(event.data));
    heard();
  });
  source.addEventListener("error", lost);
  watch();
}

function watch() {
  clearTimeout(silence);
  silence = setTimeout(() => {
    lost();
    connect();
  }, SILENCE_MS);
}

function heard() {
  watch();
  if (lostAt !== null) said.textContent = "The page is live again.";
  lostAt = null;
  document.documentElement.dataset.live = "yes";
  live.textContent = `Live, ${clock(new Date())}`;
}

function lost() {
  if (lostAt === null) {
    lostAt = new Date();
    said.textContent = "The agent does not answer: what the page shows is old.";
  }
  document.documentElement.dataset.live = "no";
  live.textContent = `The agent has not answered since ${clock(lostAt)}: what stands here is old`;
  if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_MS);
}

function clock(date) {
  return `${date.toISOString().slice(11, 19)} UTC`;
}

function show(page) {
  if (page.version !== document.documentElement.dataset.version) {
    location.reload(); // the agent was upgraded: its page is another one
    return;
  }
  document.title = page.title;
  for (const id of Object.keys(page.parts)) put(id, page.parts[id]);
  arrange(page.order);
  if (words !== "" && page.said !== words) said.textContent = page.said;
  words = page.said;
}

function put(id, html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  const old = document.getElementById(id);
  if (old === null) main.append(fresh);
  else morph(old, fresh);
}

function arrange(order) {
  for (const old of [...main.children]) if (!order.includes(old.id)) old.remove();
  const wanted = order.map((id) => document.getElementById(id)).filter((part) => part.parentNode === main);
  wanted.forEach((part, place) => {
    if (main.children[place] !== part) main.insertBefore(part, main.children[place]);
  });
}

function morph(old, fresh) {
  if (old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
  } else if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else {
    dress(old, fresh);
    const before = [...old.childNodes];
    const after = [...fresh.childNodes];
    after.forEach((node, place) => (place < before.length ? morph(before[place], node) : old.append(node)));
    for (const node of before.slice(after.length)) node.remove();
  }
}

function dress(old, fresh) {
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    const theirs = old.nodeName === "DETAILS" && name === "open"; // the reader unfolded it
    if (!fresh.hasAttribute(name) && !theirs) old.removeAttribute(name);
  }
}

connect();
