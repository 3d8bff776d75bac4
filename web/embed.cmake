# embed.cmake - the sandbox as it is delivered: for a web server, as one file, and compressed in C.
#
# usage: cmake -DWEB=DIR -DOUT=DIR -DGZIP=gzip -DFILES=a;b -DSINGLE=html -P web/embed.cmake
#
# WEB gets index.html, style.css and main.js, the modules of FILES in one: a request and a
# compression of its own for each module would cost 4 kB. OUT/pages.c has all of it compressed.
# WEB/SINGLE is the whole page in one file, for file:, where browsers load neither modules nor
# WebAssembly from beside a page.

# Without comments and indentation: every byte of the page counts, and the sources are in web/. No
# text in the sources goes over the end of a line, and none contains " // ".
function(strip text to)
    string(REGEX REPLACE "\n[ \t]+" "\n" text "\n${text}")
    string(REGEX REPLACE "\n(//[^\n]*|/\\*[^\n]*\\*/)" "\n" text "${text}")
    string(REGEX REPLACE " // [^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    string(STRIP "${text}" text)
    set(${to} "${text}\n" PARENT_SCOPE)
endfunction()

# --- Modules in one, stripped pages ---------------------------------------------------------------
set(script "")
set(packed "")
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    if(name MATCHES "\\.bin$")
        execute_process(COMMAND base64 -w 0 ${path} OUTPUT_VARIABLE wasm)
        list(APPEND packed ${path})
        continue()
    endif()
    file(READ ${path} text)
    if(name MATCHES "\\.js$")
        # Modules that lie in one script need no imports; their names are all different.
        string(REGEX REPLACE "\nimport [^;]*;" "" text "\n${text}")
        string(REGEX REPLACE "\nexport " "\n" text "${text}")
        strip("${text}" text)
        string(APPEND script "${text}")
        continue()
    endif()
    strip("${text}" text)
    file(WRITE ${WEB}/${name} "${text}")
    list(APPEND packed ${WEB}/${name})
    if(name MATCHES "\\.css$")
        set(style "${text}")
    else()
        set(page "${text}")
    endif()
endforeach()
file(WRITE ${WEB}/main.js "${script}")
list(APPEND packed ${WEB}/main.js)

# --- One file -------------------------------------------------------------------------------------
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
file(WRITE ${WEB}/${SINGLE} "${page}")

# --- Compressed, in C -----------------------------------------------------------------------------
set(FILES ${packed})
set(SYMBOL tn_pages)
set(TO pages.c)
include(${CMAKE_CURRENT_LIST_DIR}/pack.cmake)
