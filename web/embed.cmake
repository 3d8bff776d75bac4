# embed.cmake - the pages as they are delivered: compressed into a C file, and as one file to open.
#
# usage: cmake -DOUT=DIR -DGZIP=gzip -DFILES=a;b -DSINGLE=html -P web/embed.cmake
#
# OUT/pages.c has each of FILES compressed. OUT/SINGLE is index.html with everything inside it, for
# file:, where browsers load neither modules nor WebAssembly from beside a page.

# --- One file -------------------------------------------------------------------------------------
file(READ ${OUT}/index.html page)
set(script "")
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    if(name MATCHES "\\.js$")
        file(READ ${path} text)
        # Modules that lie in one script need no imports; their names are all different.
        string(REGEX REPLACE "\nimport [^;]*;" "" text "\n${text}")
        string(REGEX REPLACE "\nexport " "\n" text "${text}")
        string(APPEND script "${text}")
    elseif(name MATCHES "\\.css$")
        file(READ ${path} style)
    elseif(name MATCHES "\\.wasm$")
        execute_process(COMMAND base64 -w 0 ${path} OUTPUT_VARIABLE wasm)
    endif()
endforeach()
# One at a time, and by place: the texts have characters that a replacement would read.
function(put mark text)
    string(FIND "${page}" "${mark}" at)
    string(LENGTH "${mark}" length)
    if(at LESS 0)
        message(FATAL_ERROR "index.html has no ${mark}")
    endif()
    string(SUBSTRING "${page}" 0 ${at} before)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${page}" ${at} -1 after)
    set(page "${before}${text}${after}" PARENT_SCOPE)
endfunction()
put("script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'"
    "script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'")
put("<link rel=\"stylesheet\" href=\"style.css\">" "<style>${style}</style>")
put("<script type=\"module\" src=\"main.js\"></script>"
    "<script type=\"text/plain\" id=\"wasm\">${wasm}</script>
<script type=\"module\">${script}</script>")
file(WRITE ${OUT}/${SINGLE} "${page}")

# --- Compressed, in C -----------------------------------------------------------------------------
set(content "/* Made by web/embed.cmake. */\n#include \"cli/pages.h\"\n\n")
set(list "")
set(number 0)
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    execute_process(COMMAND ${GZIP} -9nc ${path}
        OUTPUT_FILE ${OUT}/${name}.gz RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "gzip: ${failed}")
    endif()
    file(READ ${OUT}/${name}.gz bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND content "static const unsigned char page${number}[] = { ${bytes} };\n")
    string(APPEND list "    { \"/${name}\", page${number}, sizeof page${number} },\n")
    math(EXPR number "${number} + 1")
endforeach()
string(APPEND content "\nconst struct tn_page tn_pages[] = {\n${list}    { 0, 0, 0 },\n};\n")
file(WRITE ${OUT}/pages.c "${content}")
