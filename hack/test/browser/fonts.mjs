// One font for the pictures, so that they are the same on every machine.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

// pictureFonts writes a font configuration into a folder and returns the environment of
// a browser that uses it.
export async function pictureFonts(folder) {
  const fonts = new URL('./node_modules/@expo-google-fonts/inter/', import.meta.url).pathname
  const config = join(folder, 'fonts.conf')
  await writeFile(config, `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include><dir>${fonts}</dir><cachedir>${folder}</cachedir>
<match target="pattern"><test name="family" compare="not_eq"><string>monospace</string></test><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
</fontconfig>`)
  return { FONTCONFIG_FILE: config }
}
