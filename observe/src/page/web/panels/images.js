// Images: what trainings noted as pictures, all at one step.

const SIZES = { small: 160, medium: 280, large: 560 };

function imagesPanel(app, root) {
  const kept = (app.kept.images ??= { filter: "", step: null, size: "medium" });
  let slider;
  let shown;
  const steps = () => [...new Set(shownSummaries(app).flatMap((summary) => summary.images.flatMap((row) => row.frames.map((frame) => frame.step))))].sort((a, b) => a - b);
  const tools = (redraw) => {
    shown = el("output", {});
    slider = el("input", { type: "range", min: "0", step: "1", "aria-label": "Step of the images", oninput: () => {
      const all = steps();
      const at = Number(slider.value);
      kept.step = at === all.length - 1 ? null : all[at];
      redraw();
    } });
    const size = choice("Size", Object.keys(SIZES).map((id) => [id, id[0].toUpperCase() + id.slice(1)]), kept.size, (id) => {
      kept.size = id;
      redraw();
    });
    return [el("label", { class: "slider" }, "Step", slider, shown), size, filterField("images", kept, redraw)];
  };
  const draw = (body) => {
    const all = steps();
    // Without a choice, the newest is shown, also when others come.
    const at = kept.step === null ? all.length - 1 : nearest(all, kept.step);
    slider.max = String(Math.max(0, all.length - 1));
    slider.value = String(at);
    slider.disabled = all.length < 2;
    slider.setAttribute("aria-valuetext", `step ${all[at] ?? "–"}`);
    shown.textContent = all.length ? count(all[at]) : "–";
    const rows = shownSummaries(app).flatMap((summary) => summary.images.map((row) => ({ ...row, summary })));
    rows.sort((a, b) => a.tag.localeCompare(b.tag, "en", { numeric: true }) || a.summary.at - b.summary.at);
    const fit = rows.filter((row) => row.frames.length && fitsFilter(kept.filter, row.tag));
    const none = empty("No image was noted", "A training notes images of its data by itself, and any tensor [channels, height, width] so:", command('summary::image("features", &features);'));
    clear(body, fit.length ? el("div", { class: "pictures", style: { gridTemplateColumns: `repeat(auto-fill, minmax(min(100%, ${SIZES[kept.size]}px), 1fr))` } }, fit.map((row) => pictureBox(app, row, all[at], kept))) : rows.length ? empty("No tag fits the filter") : none);
  };
  return notedPanel(app, root, { title: "Images", about: "What trainings noted as pictures. Each is the last one up to the chosen step.", tools, draw });
}

// The last picture up to a step, or the first.
function pictureBox(app, row, step, kept) {
  const frame = row.frames.findLast((frame) => frame.step <= step) ?? row.frames[0];
  const size = frame.width && frame.height ? `${frame.width} × ${frame.height}` : "";
  const fits = frame.width && frame.width < SIZES[kept.size] ? " pixels" : "";
  const picture = el("img", { class: `picture${fits}`, src: frame.url, alt: `${row.tag}, step ${frame.step}`, style: frame.width && frame.height ? { aspectRatio: `${frame.width} / ${frame.height}` } : {} });
  return el("figure", { class: "card box" }, tagTitle(app, row.tag, row.summary), picture, el("figcaption", {}, el("span", {}, `step ${count(frame.step)}`), thinnedNote(row.frames.length, row.seen, "image", "Those that are shown are spread over the steps"), el("span", {}, size)));
}

panels.push({ id: "images", title: "Images", summaries: true, make: imagesPanel });
