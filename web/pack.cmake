# pack.cmake - files compressed into a C file: an array of struct tn_page.
#
# usage: cmake -DOUT=DIR -DGZIP=gzip -DFILES=a;b -DSYMBOL=tn_pages -DTO=pages.c \
#            -P web/pack.cmake
set(content "/* Made by web/pack.cmake. */\n#include \"runtime/pages.h\"\n\n")
set(list "")
set(number 0)
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    execute_process(COMMAND ${GZIP} -9nc ${path}
        OUTPUT_FILE ${OUT}/${name}.gz RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "${GZIP}: ${failed}")
    endif()
    file(READ ${OUT}/${name}.gz bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND content "static const unsigned char page${number}[] = { ${bytes} };\n")
    string(APPEND list "    { \"/${name}\", page${number}, sizeof page${number} },\n")
    math(EXPR number "${number} + 1")
endforeach()
string(APPEND content "\nconst struct tn_page ${SYMBOL}[] = {\n${list}    { 0, 0, 0 },\n};\n")
file(WRITE ${OUT}/${TO} "${content}")
