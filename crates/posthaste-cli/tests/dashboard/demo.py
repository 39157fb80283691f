pictures = sys.argv[2] if len(sys.argv) > 2 else ""

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
    # Relays are killed every few seconds: what they delivered counts all the same.
    delivered = "Number([...document.querySelectorAll('.destination .facts div')].find((it) => it.firstChild.textContent === 'delivered').lastChild.textContent.replaceAll(',', ''))"
    tab.until(f"{delivered} > 200", "more than one relay delivers")
    tab.press("g"), tab.press("e")
    tab.until("document.querySelectorAll('tbody tr').length > 10", "events")

    # The pictures of docs/dashboard.md, once there is something to see.
    if pictures:
        def picture(name):
            tab.picture(f"{pictures}/{name}.png", whole=False)

        tab.wire.call("Emulation.setScrollbarsHidden", hidden=True)
        tab.size(1280, 800, "light")
        tab.press("g"), tab.press("o")
        time.sleep(100)
        tab.sees("Most often")
        picture("overview-light")
        tab.size(390, 844, "dark")
        time.sleep(2)
        picture("overview-phone-dark")
        tab.size(1280, 800, "light")
        tab.press("g"), tab.press("d")
        tab.click(".group input[type=checkbox]")
        tab.click("button", "Preview redelivery…")
        tab.type("dialog input[name=why]", "the couriers are stronger now")
        tab.type("dialog input[name=rate]", "4")
        tab.click("dialog button.main", "Redeliver")
        tab.until("document.querySelector('.job')?.dataset.state === 'running'")
        tab.until("!document.querySelector('.toast')")
        picture("redelivery-light")
        tab.size(1280, 800, "dark")
        tab.click(".group a", "an example")
        tab.sees("Dead: rejected")
        tab.until("!!document.querySelector('.payload')?.childElementCount", "the payload")
        time.sleep(1)
        picture("event-dark")
    tab.harmless()
