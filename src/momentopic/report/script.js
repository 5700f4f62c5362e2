"use strict";
// Strings of the data reach the page through textContent alone: none of them is ever markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const topics = data.topics;
  const K = topics.length;
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const number = new Intl.NumberFormat("en");
  const percent = (x) => (x >= 0.0995 ? (100 * x).toFixed(0) : x >= 0.00995 ? (100 * x).toFixed(1) : x > 0 ? (100 * x).toFixed(2) : "0") + " %";
  const FIRST_LABELS = 12, FIRST_DOCUMENTS = 6, MOST_HITS = 12, LIST_WORDS = 8;

  let chosen = 0;
  let lambda = 1;
  let allLabels = false;
  let allDocuments = false;

  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "text") node.textContent = value;
      else if (name === "class") node.className = value;
      else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  function shape(tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function bar(part, common) {
    const inner = element("i");
    inner.style.width = 100 * Math.min(1, part) + "%";
    const track = element("span", { class: "track", "aria-hidden": "true" }, inner);
    if (common !== undefined) {
      const line = element("b");
      line.style.width = 100 * Math.min(1, common) + "%";
      track.append(line);
    }
    return track;
  }

  // Words of a topic by relevance: lambda log p(w | topic) + (1 - lambda) log p(w | topic) / p(w).
  function relevantWords(k, weight, n) {
    const topic = topics[k];
    return topic.words
      .map((word, i) => {
        const phi = topic.phi[i];
        const lift = phi / data.frequency[word];
        return { word, phi, relevance: weight * Math.log(phi) + (1 - weight) * Math.log(lift), i };
      })
      .sort((a, b) => b.relevance - a.relevance || a.i - b.i)
      .slice(0, n);
  }

  // A topic on which two halves of the corpus disagree; the stability is null where the model does not know it.
  const isUnstable = (topic) => topic.stability !== null && topic.stability < data.unstable;
  const stabilityTitle = (topic) =>
    `Two random halves of the documents agree on ${percent(topic.stability)} of this topic` +
    (isUnstable(topic) ? ": it is not reproducible." : ".");

  const unstableMark = (topic) =>
    isUnstable(topic) ? [" ", element("span", { class: "unstable", text: `? ${topic.stability.toFixed(2)}`, title: stabilityTitle(topic) })] : [];

  const topWords = topics.map((_, k) => relevantWords(k, 1, LIST_WORDS).map((entry) => data.vocabulary[entry.word]));

  function topicButton(k, detail) {
    const words = topWords[k].slice(0, 4).join(" ");
    return element("button", { type: "button", "data-topic": k, text: `${k} · ${words} · ${detail}`, on: { click: () => choose(k) } });
  }

  // --- choosing -------------------------------------------------------------------------------------------------

  function choose(k, { follow = true } = {}) {
    chosen = (k + K) % K;
    allLabels = allDocuments = false;
    for (const [i, item] of [...byId("topics").children].entries()) item.setAttribute("aria-selected", i === chosen);
    const item = byId("topics").children[chosen];
    byId("topics").setAttribute("aria-activedescendant", item.id);
    const list = byId("topics");
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 2;
    }
    for (const group of byId("map").children) group.classList.toggle("chosen", Number(group.dataset.topic) === chosen);
    const front = byId("map").querySelector(".chosen");
    if (front) byId("map").append(front);
    showTopic();
    if (follow) history.replaceState(null, "", `#topic-${chosen}`);
  }

  function chooseFromAddress() {
    const match = /^#topic-(\d+)$/.exec(location.hash);
    choose(match && Number(match[1]) < K ? Number(match[1]) : 0, { follow: false });
  }

  function showTopic() {
    const topic = topics[chosen];
    byId("topic-title").textContent = `Topic ${chosen}: ${topWords[chosen].slice(0, 5).join(" ")}`;
    const facts = [["share of all words", percent(topic.share)], ["prior (concentration)", String(topic.prior)]];
    if (topic.coherence !== null) facts.push(["coherence (NPMI)", String(topic.coherence)]);
    byId("topic-facts").replaceChildren(
      ...facts.map(([name, value]) => element("div", {}, element("dt", { text: name }), element("dd", { text: value })))
    );
    if (topic.stability !== null) {
      const value = topic.stability.toFixed(2) + (isUnstable(topic) ? " ? not reproducible" : "");
      const fact = element("div", { title: stabilityTitle(topic) }, element("dt", { text: "stability" }), element("dd", { text: value }));
      if (isUnstable(topic)) fact.classList.add("unstable");
      byId("topic-facts").append(fact);
    }
    showWords();
    const similar = data.overlap[chosen]
      .map((value, k) => [value, k])
      .filter(([, k]) => k !== chosen)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1])
      .slice(0, 5);
    byId("similar").replaceChildren(...similar.map(([value, k]) => topicButton(k, `${value} %`)));
    showTime();
    showLabels();
    showDocuments();
    drawOverlap();
  }

  function showWords() {
    const words = relevantWords(chosen, lambda, data.nWords);
    const most = Math.max(...words.map((entry) => entry.phi));
    byId("lambda-value").textContent = `relevance, λ = ${lambda.toFixed(2)}`;
    byId("words").replaceChildren(
      ...words.map((entry) => {
        const word = data.vocabulary[entry.word];
        return element(
          "li", {},
          element("button", { type: "button", text: word, title: "Which topics use this word?", on: { click: () => lookUp(word) } }),
          bar(entry.phi / most, data.frequency[entry.word] / most),
          element("span", { class: "value", text: percent(entry.phi) })
        );
      })
    );
  }

  // --- groups of documents --------------------------------------------------------------------------------------

  function showLabels() {
    if (!data.labels) return;
    const shares = data.labels.shares[chosen];
    const order = shares.map((_, i) => i).sort((a, b) => shares[b] - shares[a] || a - b);
    const shown = allLabels ? order : order.slice(0, FIRST_LABELS);
    const most = Math.max(...shares, 1e-9);
    byId("labels").replaceChildren(
      ...shown.map((i) =>
        element(
          "li", {},
          element("span", { class: "name", text: data.labels.names[i] }),
          bar(shares[i] / most),
          element("span", { class: "value", text: percent(shares[i]) }),
          element("span", { class: "value count", text: `${number.format(data.labels.documents[i])} docs` })
        )
      )
    );
    more("labels-more", order.length - shown.length, "labels");
    byId("labels-section").hidden = false;
  }

  function showTime() {
    if (!data.time) return;
    const { names, documents } = data.time;
    const shares = data.time.shares[chosen];
    const svg = byId("time");
    const left = 46, right = 634, top = 10, bottom = 150;
    const most = Math.max(...shares, 1e-9);
    const width = (right - left) / names.length;
    const parts = [0, 0.5, 1].flatMap((part) => {
      const y = bottom - part * (bottom - top);
      return [
        shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        shape("text", { class: "axis", x: left - 6, y: y + 4, "text-anchor": "end" }, percent(part * most)),
      ];
    });
    shares.forEach((share, i) => {
      const height = (share / most) * (bottom - top);
      const rectangle = shape("rect", {
        class: "bar", x: left + i * width + width * 0.1, y: bottom - height, width: width * 0.8, height: Math.max(height, 0.5),
      });
      rectangle.append(shape("title", {}, `${names[i]}: ${percent(share)} of ${number.format(documents[i])} documents`));
      parts.push(rectangle);
    });
    const begins = names.map((name) => name.split("–")[0]);
    const longest = Math.max(...begins.map((name) => name.length));
    const every = Math.max(1, Math.ceil((names.length * (longest * 7 + 14)) / (right - left)));
    begins.forEach((name, i) => {
      if (i % every === 0) {
        parts.push(shape("text", { class: "axis", x: left + (i + 0.5) * width, y: bottom + 18, "text-anchor": "middle" }, name));
      }
    });
    svg.replaceChildren(...parts);
    const best = shares.indexOf(Math.max(...shares));
    svg.setAttribute("aria-label", `From ${names[0]} to ${names[names.length - 1]}; most in ${names[best]}, ${percent(shares[best])}.`);
    byId("time-section").hidden = false;
  }

  function more(id, hidden, what) {
    byId(id).hidden = hidden <= 0;
    byId(id).textContent = `Show ${hidden} more ${what}`;
  }

  // --- documents ------------------------------------------------------------------------------------------------

  const LETTERS = /[\p{L}\p{M}]+/gu;

  function marked(text, wanted) {
    const paragraph = element("p");
    let end = 0;
    for (const match of text.matchAll(LETTERS)) {
      if (!wanted.has(match[0].toLowerCase())) continue;
      paragraph.append(text.slice(end, match.index), element("mark", { text: match[0] }));
      end = match.index + match[0].length;
    }
    paragraph.append(text.slice(end));
    return paragraph;
  }

  function showDocuments() {
    const topic = topics[chosen];
    if (!topic.documents || !topic.documents.length) {
      byId("documents-section").hidden = true;
      return;
    }
    const wanted = new Set(relevantWords(chosen, 1, data.nWords).map((entry) => data.vocabulary[entry.word].toLowerCase()));
    const shown = allDocuments ? topic.documents : topic.documents.slice(0, FIRST_DOCUMENTS);
    byId("documents").replaceChildren(
      ...shown.map((index, i) => {
        const entry = data.documents[index];
        const meta = element("div", { class: "meta" }, element("strong", { text: percent(topic.weights[i]) }));
        if (entry.label !== undefined && entry.label !== null) meta.append(element("span", { text: entry.label }));
        if (entry.date !== undefined) meta.append(element("span", { text: entry.date }));
        meta.append(element("span", { text: entry.id !== undefined && entry.id !== null ? entry.id : `document ${entry.n}` }));
        return element("li", {}, meta, marked(entry.text, wanted));
      })
    );
    more("documents-more", topic.documents.length - shown.length, "documents");
    byId("documents-section").hidden = false;
  }

  // --- words ----------------------------------------------------------------------------------------------------

  const lower = data.vocabulary.map((word) => word.toLowerCase());

  function search(query) {
    const wanted = query.trim().toLowerCase();
    const section = byId("search-section");
    const used = new Map();
    section.hidden = !wanted;
    if (wanted) {
      const ranked = [[], [], []];
      lower.forEach((word, i) => {
        if (word === wanted) ranked[0].push(i);
        else if (word.startsWith(wanted)) ranked[1].push(i);
        else if (word.includes(wanted)) ranked[2].push(i);
      });
      const all = ranked.flat();
      const hits = all.slice(0, MOST_HITS);
      byId("search-status").textContent = all.length
        ? `${number.format(all.length)} of the words searched contain “${query.trim()}”${all.length > hits.length ? `; the first ${hits.length} are shown` : ""}. The percentages say where the word’s occurrences are.`
        : `No word of the ${number.format(lower.length)} that can be searched contains “${query.trim()}”.`;
      byId("search-results").replaceChildren(
        ...hits.map((i) => {
          const pairs = data.wordTopics[i];
          const chips = element("div", { class: "chips" });
          for (let j = 0; j < pairs.length; j += 2) {
            chips.append(topicButton(pairs[j], percent(pairs[j + 1] / 1000)));
            if (i === hits[0]) used.set(pairs[j], pairs[j + 1]);
          }
          return element("div", { class: "hit" }, element("strong", { text: data.vocabulary[i] }), chips);
        })
      );
    }
    for (const group of byId("map").children) group.classList.toggle("found", used.has(Number(group.dataset.topic)));
  }

  function lookUp(word) {
    byId("search").value = word;
    search(word);
    byId("search-section").scrollIntoView({ block: "nearest" });
  }

  // --- the whole ------------------------------------------------------------------------------------------------

  function drawMap() {
    const groups = topics
      .map((topic, k) => [topic.r, k])
      .sort((a, b) => b[0] - a[0]) // small circles lie above large ones
      .map(([, k]) => {
        const topic = topics[k];
        const group = shape("g", { "data-topic": k, class: isUnstable(topic) ? "unstable" : "" });
        const circle = shape("circle", { cx: 100 * topic.x, cy: 100 * topic.y, r: 100 * topic.r });
        circle.append(shape("title", {}, `Topic ${k} (${percent(topic.share)}): ${topWords[k].join(" ")}`));
        circle.addEventListener("click", () => choose(k));
        const size = Math.max(2.2, Math.min(4.5, 90 * topic.r));
        group.append(circle, shape("text", { x: 100 * topic.x, y: 100 * topic.y, "font-size": size }, k));
        return group;
      });
    byId("map").replaceChildren(...groups);
  }

  function drawList() {
    byId("topics").replaceChildren(
      ...topics.map((topic, k) =>
        element(
          "li", { role: "option", id: `topic-option-${k}`, "aria-selected": "false", on: { click: () => choose(k) } },
          element("span", { class: "number", text: k }),
          element("span", { class: "share", text: percent(topic.share) }),
          element("span", { class: "words", text: topWords[k].join(" ") }, ...unstableMark(topic))
        )
      )
    );
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { panel: read("--panel"), topic: read("--topic"), chosen: read("--chosen") };
  }

  function drawOverlap() {
    const canvas = byId("overlap");
    const cell = Math.max(6, Math.floor(640 / K));
    const { panel, topic, chosen: accent } = colours();
    canvas.width = canvas.height = cell * K;
    const context = canvas.getContext("2d");
    context.fillStyle = panel;
    context.fillRect(0, 0, canvas.width, canvas.height);
    // the least overlap there is stays blank: every pair of topics shares some words
    const off = data.overlap.flatMap((row, i) => row.filter((_, j) => j !== i));
    const low = off.length ? Math.min(...off) : 0;
    context.fillStyle = topic;
    data.overlap.forEach((row, i) =>
      row.forEach((value, j) => {
        context.globalAlpha = Math.max(0, (value - low) / Math.max(1, 100 - low));
        context.fillRect(j * cell, i * cell, cell - 1, cell - 1);
      })
    );
    context.globalAlpha = 1;
    context.strokeStyle = accent;
    context.lineWidth = 2;
    context.strokeRect(1, chosen * cell, canvas.width - 2, cell - 1);
  }

  function overlapPlace(event) {
    const box = byId("overlap").getBoundingClientRect();
    const at = (position, size) => Math.min(K - 1, Math.max(0, Math.floor((position / size) * K)));
    return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
  }

  function drawSpectrum() {
    const { eigenvalues, heldout, floor, advice } = data.spectrum;
    const svg = byId("spectrum");
    const positive = eigenvalues.filter((value) => value > 0);
    if (!positive.length) return;
    const left = 52, right = 634, top = 12, bottom = 200;
    const lowest = Math.log10(Math.min(...positive, floor > 0 ? floor : Infinity)) - 0.1;
    const highest = Math.log10(positive[0]) + 0.05;
    const y = (value) => bottom - ((Math.log10(value) - lowest) / (highest - lowest)) * (bottom - top);
    const width = (right - left) / eigenvalues.length;
    const parts = [];
    for (let power = Math.ceil(lowest); power <= highest; power++) {
      parts.push(
        shape("line", { class: "grid", x1: left, x2: right, y1: y(10 ** power), y2: y(10 ** power) }),
        shape("text", { class: "axis", x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, Number(10 ** power).toPrecision(1).replace(/\.0+$/, ""))
      );
    }
    eigenvalues.forEach((value, i) => {
      if (value <= 0) return;
      const rectangle = shape("rect", {
        class: floor === null || value > floor ? "bar" : "noise",
        x: left + i * width + width * 0.1, y: y(value), width: width * 0.8, height: Math.max(0.5, bottom - y(value)),
      });
      rectangle.append(shape("title", {}, `eigenvalue ${i + 1}: ${value}`));
      parts.push(rectangle);
      if (heldout && heldout[i] > 10 ** lowest) {
        parts.push(shape("circle", { class: "heldout", cx: left + (i + 0.5) * width, cy: y(heldout[i]), r: Math.min(3, width * 0.4) }));
      }
    });
    if (floor) parts.push(shape("line", { class: "floor", x1: left, x2: right, y1: y(floor), y2: y(floor) }));
    const every = [1, 2, 5, 10, 20, 50].find((step) => eigenvalues.length / step <= 12) || 100;
    for (let i = every; i <= eigenvalues.length; i += every) {
      parts.push(shape("text", { class: "axis", x: left + (i - 0.5) * width, y: bottom + 18, "text-anchor": "middle" }, i));
    }
    parts.push(shape("text", { class: "axis", x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle" }, "eigenvalue of S, on a logarithmic scale"));
    svg.replaceChildren(...parts);
    byId("spectrum-advice").textContent = advice || "";
    const note = floor === null
      ? "The eigenvalues that the fit used. With documents, a report also measures how much of this is noise."
      : "Bars: the eigenvalues of S. Dashed line: the largest that noise alone gives. Circles: what directions found in one half of the documents hold in the other half.";
    byId("spectrum-note").textContent = note;
    svg.setAttribute("aria-label", `${positive.length} eigenvalues, the largest ${positive[0]}. ${advice || ""}`);
  }

  function drawCard() {
    byId("card").replaceChildren(
      ...data.card.map(([name, rows]) => {
        const table = element("table", {}, element("caption", { text: name }));
        const body = element("tbody");
        for (const [row, value] of rows) {
          const text = typeof value === "number" ? number.format(value) : String(value);
          body.append(element("tr", {}, element("th", { scope: "row", text: row }), element("td", { text })));
        }
        table.append(body);
        return table;
      })
    );
  }

  // --- keys and clicks ------------------------------------------------------------------------------------------

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && event.target === byId("search")) {
      byId("search").value = "";
      search("");
    } else if (!typing && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowRight" ? 1 : -1));
    } else if (event.target === byId("topics") || event.target === byId("map")) {
      const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: K - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(to);
    }
  });
  byId("previous").addEventListener("click", () => choose(chosen - 1));
  byId("next").addEventListener("click", () => choose(chosen + 1));
  byId("lambda").addEventListener("input", (event) => {
    lambda = Number(event.target.value);
    showWords();
  });
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search-form").addEventListener("submit", (event) => event.preventDefault());
  byId("labels-more").addEventListener("click", () => { allLabels = true; showLabels(); });
  byId("documents-more").addEventListener("click", () => { allDocuments = true; showDocuments(); });
  byId("overlap").addEventListener("click", (event) => choose(overlapPlace(event)[0]));
  byId("overlap").addEventListener("mousemove", (event) => {
    const [i, j] = overlapPlace(event);
    byId("overlap-status").textContent = `Topics ${i} and ${j}: ${data.overlap[i][j]} % alike`;
  });
  window.addEventListener("hashchange", chooseFromAddress);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverlap);

  const shownDocuments = data.card.find(([name]) => name === "Documents shown") || data.card[0];
  const documents = shownDocuments[1].find(([name]) => name === "documents");
  byId("summary").textContent = [
    typeof documents[1] === "number" ? `${number.format(documents[1])} documents` : null,
    `${number.format(data.card[0][1].find(([name]) => name.startsWith("words"))[1])} words`,
    K === 1 ? "1 topic" : `${K} topics`,
  ].filter(Boolean).join(" · ");
  drawMap();
  drawList();
  drawSpectrum();
  drawCard();
  chooseFromAddress();
})();
