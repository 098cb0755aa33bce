"""Reports of the load test as lines, as a table, and as a section of a page."""
import os

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def line(name, clients, report, busy):
    ms = lambda key: f"{report[key]['p50']:.0f}" if report[key] else "-"
    return (
        f"{name:14} {clients:3} clients: {report['output_tokens_per_s']:7.1f} tok/s, TTFT p50 {ms('ttft_ms')} ms, "
        f"ITL p50 {ms('itl_ms')} ms, {report['done']} done, {report['refused']} refused, {report['failed']} failed in {report['wall_s']:.0f} s; load before {busy:.1f}"
    )


def best(reports):
    return max(reports, key=lambda r: r["output_tokens_per_s"])


def short_of(report, max_tokens):
    """What spoils a comparison: failures, answers that ended before max_tokens, tokens counted by something else than usage."""
    notes = []
    for kind, errors in report["errors"].items():
        notes.append(f"{errors['count']} of {report['requests']} requests failed ({kind}, such as: {errors['example']})")
    for kind, errors in report["refusals"].items():
        notes.append(f"{errors['count']} of {report['requests']} requests were refused ({kind}, such as: {errors['example']})")
    if early := report["done"] - report["finish_reasons"].get("length", 0):
        notes.append(f"{early} of {report['done']} answers ended before {max_tokens} tokens")
    if report["output_tokens_from"] == "pieces":
        notes.append("the server gave no usage, pieces of text are counted")
    return notes


def markdown(reports, levels, max_tokens):
    """A table with one row a number of clients, and what must be known to read it."""
    names = list(reports)
    cells = ["clients"] + [f"{n}, tok/s" for n in names] + (["ratio"] if len(names) == 2 else [])
    cells += [f"{n}, TTFT p50 / p95 ms" for n in names] + [f"{n}, ITL p50 / p95 ms" for n in names]
    lines, notes = ["| " + " | ".join(cells) + " |", "|" + "---|" * len(cells)], []
    for level in levels:
        tops = [best(reports[n][level]) for n in names]
        rates = [t["output_tokens_per_s"] for t in tops]
        row = [str(level)] + [f"{r:.1f}" for r in rates]
        if len(names) == 2:
            ours, theirs = (rates[names.index(n)] for n in ("coxswain", "mlx_lm.server"))
            row.append(f"{ours / theirs:.2f}")
        for key in ("ttft_ms", "itl_ms"):
            row += [f"{t[key]['p50']:.0f} / {t[key]['p95']:.0f}" if t[key] else "-" for t in tops]
        lines.append("| " + " | ".join(row) + " |")
        notes += [f"- {n}, {level} clients: {note}." for n, t in zip(names, tops) for note in short_of(t, max_tokens)]
    return "\n".join(lines + [""] + notes).strip() + "\n"


def write(page, text, machine, command):
    """Replaces the page's section between the two marks, or makes the page."""
    section = f"{BEGIN}\n`{command}` on {machine}:\n\n{text}{END}"
    old = f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    if os.path.exists(page):
        with open(page) as f:
            old = f.read()
    before, mark, rest = old.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not mark or not closed:
        raise SystemExit(f"{page}: the marks {BEGIN} and {END} are not there")
    os.makedirs(os.path.dirname(page), exist_ok=True)
    with open(page, "w") as f:
        f.write(before + section + after)
