// What a page is asked in the tests: an object whose functions return lists of findings.
({
  // Characters that a page must show as symbols: they are obeyed or hidden by a browser.
  obeyed:
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/,

  /** What hostile values made that they must not make. */
  marks() {
    const found = [];
    if (document.documentElement.dataset.run) found.push("a script ran");
    if (document.querySelector("[data-made], plaintext")) found.push("a value became an element");
    for (const each of document.querySelectorAll("a, form, object, embed, iframe")) {
      const target = each.getAttribute("href") ?? each.getAttribute("action") ?? "";
      if (/^\s*javascript:/i.test(target)) found.push(`a link runs: ${each.outerHTML}`);
      if (/^(OBJECT|EMBED|IFRAME)$/.test(each.tagName)) found.push(`the page has ${each.tagName}`);
    }
    for (const each of document.querySelectorAll("*")) {
      for (const { name } of each.attributes) {
        if (/^on/i.test(name)) found.push(`${each.tagName} has ${name}`);
        if (name === "style") found.push(`${each.tagName} has a style of its own`);
      }
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.data;
      const place = text.search(this.obeyed);
      if (place < 0) continue;
      found.push(`a control character is shown: ${JSON.stringify(text.slice(place, place + 40))}`);
      break;
    }
    if (this.obeyed.test(document.title)) found.push("a control character is in the title");
    return found;
  },

  /** What makes the page scroll sideways. */
  overflow() {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width + 1) return [];
    const isInsideOfScrolling = (each) => {
      for (let box = each.parentElement; box && box !== document.body; box = box.parentElement) {
        if (getComputedStyle(box).overflowX !== "visible") return true;
      }
      return false;
    };
    const wide = [...document.body.querySelectorAll("*")]
      .filter((each) => each.getBoundingClientRect().right > width + 1)
      .filter((each) => !isInsideOfScrolling(each))
      .map((each) => `wide: ${this.described(each)}`);
    return [`the page is ${document.documentElement.scrollWidth} px wide, not ${width}`]
      .concat(wide.slice(0, 5));
  },

  described(each) {
    const text = (each.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 50);
    const id = each.id ? `#${each.id}` : "";
    const classes = [...each.classList].map((name) => `.${name}`).join("");
    return `${each.tagName.toLowerCase()}${id}${classes} "${text}"`;
  },

  isShown(each) {
    return each.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  },

  /** The accessible name of a control, as far as the console's pages need it. */
  nameOf(each) {
    const labelled = each.getAttribute("aria-labelledby");
    if (labelled) {
      return labelled.split(/\s+/).map((id) => document.getElementById(id)?.textContent).join(" ");
    }
    const label = each.getAttribute("aria-label");
    if (label) return label;
    const labels = [...(each.labels ?? [])].map((one) => one.textContent).join(" ");
    if (labels.trim()) return labels;
    const images = [...each.querySelectorAll("[aria-label], img[alt], svg > title")]
      .map((one) => one.getAttribute("aria-label") ?? one.getAttribute("alt") ?? one.textContent);
    return `${each.textContent ?? ""} ${images.join(" ")} ${each.getAttribute("title") ?? ""}`;
  },

  /** What a screen reader or a keyboard would miss. */
  structure() {
    const found = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    const shown = (selector) => all(selector).filter((each) => this.isShown(each));
    if (!document.documentElement.lang) found.push("the page has no language");
    if (!document.title.trim()) found.push("the page has no title");
    if (shown("main").length !== 1) found.push(`the page has ${shown("main").length} mains`);
    if (all("h1").length !== 1) found.push(`the page has ${all("h1").length} h1`);
    if (!document.querySelector("a[href='#main']")) found.push("no link skips to the content");
    let before = 0;
    for (const each of shown("h1, h2, h3, h4, h5, h6")) {
      const level = Number(each.tagName[1]);
      if (level > before + 1) found.push(`a level is left out before ${this.described(each)}`);
      if (!this.nameOf(each).trim()) found.push(`empty: ${this.described(each)}`);
      before = level;
    }
    const navigations = shown("nav");
    for (const each of navigations) {
      if (navigations.length > 1 && !each.ariaLabel && !each.getAttribute("aria-labelledby")) {
        found.push(`without a name: ${this.described(each)}`);
      }
    }
    const named = "a[href], button, input:not([type=hidden]), select, textarea, summary, [role=img]";
    for (const each of all(named)) {
      if (each.closest("[hidden]")) continue;
      if (!this.nameOf(each).trim()) found.push(`without a name: ${each.outerHTML.slice(0, 120)}`);
    }
    for (const each of all("svg, img")) {
      const hides = each.closest("[aria-hidden=true]");
      if (!hides && !(each.alt ?? each.ariaLabel ?? each.querySelector("title"))) {
        found.push(`an image without a text: ${each.outerHTML.slice(0, 120)}`);
      }
    }
    for (const each of all("th")) {
      if (!each.scope) found.push(`a th without a scope: ${this.described(each)}`);
    }
    for (const table of all("table")) {
      if (!table.querySelector("th")) found.push(`a table without heads: ${this.described(table)}`);
    }
    for (const each of all("[tabindex]")) {
      if (each.tabIndex > 0) found.push(`a tabindex above 0: ${this.described(each)}`);
    }
    // Who uses a keyboard must be able to scroll what scrolls.
    for (const each of shown("*")) {
      const style = getComputedStyle(each);
      const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
      const isLarger =
        each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1;
      if (!scrolls || !isLarger || each === document.documentElement) continue;
      const holds = each.querySelector("a[href], button, input, select, textarea, summary, [tabindex]");
      if (each.tabIndex < 0 && !holds) {
        found.push(`a keyboard cannot scroll ${this.described(each)}`);
      }
    }
    const ids = new Map();
    for (const each of all("[id]")) ids.set(each.id, (ids.get(each.id) ?? 0) + 1);
    for (const [id, count] of ids) if (count > 1) found.push(`the id ${id} is there ${count} times`);
    for (const name of ["for", "aria-labelledby", "aria-describedby", "aria-controls", "list"]) {
      for (const each of all(`[${name}]`)) {
        for (const id of each.getAttribute(name).split(/\s+/)) {
          if (id && !ids.has(id)) found.push(`${name}="${id}" leads nowhere`);
        }
      }
    }
    return found;
  },

  /** A CSS color as [red, green, blue, alpha], by the browser itself. */
  rgba(color) {
    this.canvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    this.colors ??= new Map();
    if (!this.colors.has(color)) {
      this.canvas.clearRect(0, 0, 1, 1);
      this.canvas.fillStyle = color;
      this.canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = this.canvas.getImageData(0, 0, 1, 1).data;
      this.colors.set(color, [red, green, blue, alpha / 255]);
    }
    return this.colors.get(color);
  },

  over(upper, lower) {
    const alpha = upper[3];
    return [0, 1, 2].map((n) => upper[n] * alpha + lower[n] * (1 - alpha)).concat(1);
  },

  luminance(color) {
    const [red, green, blue] = color.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  },

  ratio(one, other) {
    const [low, high] = [this.luminance(one), this.luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  },

  backgroundOf(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = this.rgba(getComputedStyle(each).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    let color = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
    for (const layer of layers.reverse()) color = this.over(layer, color);
    return color;
  },

  /** Texts whose contrast is below that of WCAG 2.2, level AA (1.4.3). */
  contrast() {
    const found = new Map();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.data.trim();
      const each = texts.currentNode.parentElement;
      if (!text || !this.isShown(each) || each.closest("[aria-hidden=true], :disabled")) continue;
      const style = getComputedStyle(each);
      if (each.getBoundingClientRect().width <= 1) continue; // for screen readers alone
      if (each.closest("svg")) continue;
      const background = this.backgroundOf(each);
      let opacity = 1;
      for (let box = each; box; box = box.parentElement) {
        opacity *= Number(getComputedStyle(box).opacity);
      }
      const color = [...this.rgba(style.color)];
      color[3] *= opacity;
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const ratio = this.ratio(this.over(color, background), background);
      if (ratio >= (isLarge ? 3 : 4.5)) continue;
      const key = `${style.color} on ${background.map(Math.round)}`;
      if (!found.has(key)) {
        found.set(key, `${ratio.toFixed(2)}: ${key} (${style.fontSize}) ${this.described(each)}`);
      }
    }
    return [...found.values()];
  },

  /** How the focused element is seen; its name, or a finding that begins with "!". */
  focused() {
    const each = document.activeElement;
    if (!each || each === document.body) return "";
    const style = getComputedStyle(each);
    const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    const isSeen = hasOutline || style.boxShadow !== "none";
    const box = each.getBoundingClientRect();
    const isInside = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
    const place = `${this.described(each)}`;
    if (!isSeen) return `! the focus is not seen on ${place}`;
    if (!isInside) return `! the focus is outside of the window on ${place}`;
    return place;
  },

  /** Targets of a finger that are smaller than WCAG 2.2, level AA, asks for (2.5.8). */
  targets() {
    const found = [];
    for (const each of document.querySelectorAll("button, input, select, summary, .button")) {
      if (!this.isShown(each) || each.type === "hidden") continue;
      const box = each.getBoundingClientRect();
      if (box.width === 0) continue;
      if (box.width < 24 || box.height < 24) {
        const isLabelled = each.closest("label")?.getBoundingClientRect().height >= 24;
        if (!isLabelled) {
          found.push(`${Math.round(box.width)} x ${Math.round(box.height)}: ${this.described(each)}`);
        }
      }
    }
    return found;
  },
})
