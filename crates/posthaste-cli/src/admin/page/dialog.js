// Questions before something is done: what it is about, why, and yes or no.

import { h, replace } from "./dom.js";

// Shows a dialog and waits. `act` gets the fields, and its failure is shown in the dialog.
export function ask({ title, body = [], fields = [], action, danger = false, act }) {
  return new Promise((resolve) => {
    const failure = h("p.failure", { role: "alert" });
    const inputs = fields.map((field) =>
      h("input", {
        name: field.name, type: field.type ?? "text", required: field.required, min: field.min, max: field.max,
        placeholder: field.hint, autocomplete: "off", value: field.value, maxlength: field.longest,
      }));
    const confirm = action && h(danger ? "button.danger" : "button.main", { type: "submit" }, action);
    const form = h(
      "form", { onsubmit: submit },
      h("h2", {}, title), body,
      fields.map((field, place) => h("label.field", {}, field.label, inputs[place])),
      failure,
      h("div.buttons", {}, h("button", { type: "button", onclick: () => dialog.close() }, action ? "Cancel" : "Close"), confirm),
    );
    const dialog = h("dialog", { "aria-label": title }, form);
    let answer = null;

    async function submit(event) {
      event.preventDefault();
      if (!action) return dialog.close();
      confirm.disabled = true;
      replace(failure);
      try {
        answer = (await act(Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()])))) ?? true;
        dialog.close();
      } catch (error) {
        confirm.disabled = false;
        replace(failure, error.message, error.remedy && `: ${error.remedy}`);
      }
    }

    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    inputs[0]?.focus();
  });
}

export const WHY = { name: "why", label: "Why? It goes into the audit log.", required: true, longest: 500, hint: "the bug is fixed" };

let fading = 0;

// Says in passing what was done.
export function toast(text) {
  document.querySelector(".toast")?.remove();
  clearTimeout(fading);
  const node = h("p.toast", { role: "status" }, text);
  document.body.append(node);
  fading = setTimeout(() => node.remove(), 5000);
}
