with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    # Without a token, and living: events come and go, and the charts show it.
    tab.forgiven = ["/healthz"]
    tab.open("/")
    tab.sees("Overview")
    tab.until("document.querySelectorAll('.chart .line').length >= 4", "charts")
    lines = "[...document.querySelectorAll('.chart .line')].map((it) => it.getAttribute('d')).join()"
    first = tab.until(f"{lines}.length > 100 && {lines}", "lines")
    tab.until(f"{lines} !== {json.dumps(first)}", "another second")
    tab.until("document.body.innerText.includes('delivering') || document.body.innerText.includes('unavailable')", "destinations")
    tab.press("g"), tab.press("e")
    tab.until("document.querySelectorAll('tbody tr').length > 10", "events")
    if len(sys.argv) > 2 and sys.argv[2]:
        for name in ["overview", "events", "dead", "destinations"]:
            for theme in ["light", "dark"]:
                tab.size(1440, 900, theme)
                tab.run(f"location.hash = location.hash.split('/').slice(0, 2).join('/') + '/{name}'")
                time.sleep(3)
                tab.picture(f"{sys.argv[2]}/demo-{name}-{theme}.png")
    tab.harmless()
