// Before the first paint: the theme that was chosen, so that the page does not flash in the other one.
try {
  const chosen = localStorage.getItem("coxswain.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the system's theme it is.
}
