// The operator console: dialogs, copying, keys, the live stream. Every page works without it.
(() => {
  "use strict";
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // Actions: <a data-form href> opens the form of that page as a dialog; without script it is a link to the page.
  async function openForm(link) {
    try {
      const answer = await fetch(link.href, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const form = one("form[data-form]", page);
      if (!answer.ok || !form) throw new Error("no form");
      const dialog = document.createElement("dialog");
      const title = one("h1", form);
      const heading = document.createElement("h2");
      heading.id = "dialog-t";
      heading.textContent = title.textContent;
      title.replaceWith(heading);
      dialog.setAttribute("aria-labelledby", heading.id);
      form.removeAttribute("aria-labelledby");
      form.classList.remove("box", "action");
      dialog.append(document.adoptNode(form));
      dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
      document.body.append(dialog);
      dialog.showModal();
    } catch {
      location.href = link.href;
    }
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("a[data-form], [data-dialog], [data-cancel], [data-close], [data-copy]");
    if (!target) return;
    const dialog = target.closest("dialog");
    if (target.matches("a[data-form]")) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      openForm(target);
    } else if (target.dataset.dialog) document.getElementById(target.dataset.dialog)?.showModal();
    else if ("cancel" in target.dataset) { if (dialog) { event.preventDefault(); dialog.close(); } }
    else if ("close" in target.dataset) target.parentElement.remove();
    else copy(target);
  });

  // A form is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if ("sent" in event.target.dataset) event.preventDefault();
    else event.target.dataset.sent = "";
  });
  window.addEventListener("pageshow", () => { for (const form of all("form[data-sent]")) delete form.dataset.sent; });

  async function copy(button) {
    const words = button.textContent;
    const code = one("code", button.parentElement);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = words; }, 1500);
  }

  // Select rows of the page; the bar says how many.
  const every = one("[data-every]");
  const boxes = all("[data-row]");
  const count = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.closest("tr").classList.toggle("on", box.checked);
    for (const place of all("[data-count]")) place.textContent = String(chosen);
    const bar = one("[data-bulk]");
    if (bar) bar.hidden = !chosen;
    if (every) { every.checked = chosen === boxes.length; every.indeterminate = chosen > 0 && !every.checked; }
  };
  if (every) {
    every.addEventListener("change", () => { for (const box of boxes) box.checked = every.checked; count(); });
    for (const box of boxes) box.addEventListener("change", count);
    count();
  }

  // The live stream: parts of the page are exchanged by their ids. Old figures are shown as old.
  const live = one("[data-live]");
  if (live) {
    const at = one("[data-live-at]");
    const words = one("[data-live-state]");
    const begun = words.textContent;
    let heard = Date.now();
    const say = (text, state) => {
      if (words.textContent !== text) words.textContent = text;
      live.className = `live ${state === "sent" ? "pulse " : ""}s-${state}`;
      one("#main").classList.toggle("stale", state !== "sent" && state !== "sending");
    };
    const stream = new EventSource(live.dataset.live);
    stream.addEventListener("live", (event) => {
      heard = Date.now();
      const { at: time, parts } = JSON.parse(event.data);
      if (at && time) at.textContent = time;
      for (const [id, html] of Object.entries(parts ?? {})) {
        const place = document.getElementById(id);
        if (place && !place.contains(document.activeElement)) place.innerHTML = html;
      }
      say(begun, at ? "sent" : "sending");
    });
    stream.addEventListener("arrived", () => location.reload());
    stream.addEventListener("trouble", (event) => { heard = Date.now(); say(`Stale: ${JSON.parse(event.data)}. As of`, "held"); });
    setInterval(() => {
      if (Date.now() - heard > 5000) say(stream.readyState === EventSource.CLOSED ? "Cut off: reload the page. As of" : "Cut off, connecting. As of", "failed");
    }, 1000);
    window.addEventListener("pagehide", () => stream.close());
  }

  // A list that others add to: asked for again every two seconds while it is seen, and put in place of the old one.
  const followed = one("[data-follow]");
  let shown = followed?.innerHTML;
  async function follow() {
    if (document.hidden || location.search.includes("cursor=") || one("dialog[open]")) return;
    const answer = await fetch(followed.dataset.follow, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = one("[data-follow]", page);
    if (!answer.ok || answer.redirected || !fresh) return;
    const chosen = one("[aria-current]", followed)?.getAttribute("href");
    for (const link of all("a", fresh)) {
      if (link.getAttribute("href") === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (fresh.innerHTML === shown) return;
    shown = fresh.innerHTML;
    const focused = document.activeElement?.closest("[data-follow] a")?.getAttribute("href");
    followed.replaceChildren(...fresh.childNodes);
    all("a", followed).find((link) => link.getAttribute("href") === focused)?.focus();
  }
  if (followed) setInterval(() => follow().catch(() => {}), 2000);

  // Keys. Never while typing, never with a modifier, never over an open dialog.
  let waiting = 0;
  let row = -1;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]") && event.target.type !== "checkbox") return;
    const rows = all("tr[tabindex]");
    const section = all(".nav [data-key]").find((link) => link.dataset.key === event.key);
    if (waiting && Date.now() - waiting < 1000 && section) location.href = section.href;
    else if (event.key === "g") { waiting = Date.now(); return; }
    else if (event.key === "/") one("[data-find]")?.focus();
    else if (event.key === "?") one("#help")?.showModal();
    else if ((event.key === "j" || event.key === "k") && rows.length) {
      row = Math.min(Math.max(row + (event.key === "j" ? 1 : -1), 0), rows.length - 1);
      rows[row].focus();
    } else if (event.key === "x" && rows[row]) one("[data-row]", rows[row])?.click();
    else if (event.key === "Enter" && event.target === rows[row]) one("a", rows[row])?.click();
    else { waiting = 0; return; }
    waiting = 0;
    event.preventDefault();
  });
})();
